"""The whole interface drawn from states as strange as a run can make them."""

import random

import pytest

from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import AttentionRows, GenerationStats, Inspect, LensResult
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.rows import ROWS, pointed_question
from llm_lite.desktop.features.program.state import (
    AnswerComparison,
    AppState,
    CatalogueEntry,
    DeviceChoice,
    Load,
    LogLine,
    Message,
    Notice,
    Running,
    Token,
)
from llm_lite.desktop.features.quantization.state import RateSample
from llm_lite.desktop.features.registry import VIEWS
from llm_lite.desktop.features.tokens.lens import LENS
from llm_lite.desktop.features.tokens.state import XRay
from tests.desktop.cached import with_answer, with_cached
from tests.desktop.engine.answers import ANSWER, KOREAN
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.engine.questions import lens

TEXTS = [
    "",
    "a",
    ANSWER,
    KOREAN,
    "x" * 3000,
    "\n" * 40,
    "日本語の文章。" * 30,
    "`" * 9,
    "\x00\ufffd",
]


def random_messages(rng, stats):
    reasons = ["end", "length", "stopped", "context", "error"]
    messages = []
    for number in range(rng.randrange(6)):
        role = "user" if number % 2 == 0 else "assistant"
        text = rng.choice(TEXTS)
        tokens = tuple(Token(i, "t", rng.random()) for i in range(rng.randrange(4)))
        reason = rng.choice(reasons) if role == "assistant" else None
        problem = rng.choice(["", "The context is full. " * 9])
        messages.append(Message(role, text, tokens, reason, rng.choice([None, stats]), problem))
    return messages


def random_state(rng):
    """A state as strange as a run can make it."""
    stats = GenerationStats(9, 3, 40, 120.0, 33.0, 250.0, 99, 1 << 30)
    messages = random_messages(rng, stats)
    busy = bool(messages) and messages[-1].role == "assistant" and rng.random() < 0.5
    phase = rng.choice(["waiting", "prefill", "decode"])
    running = Running(1, 0.0, phase, rng.randrange(99), 0, rng.randrange(99), stopping=busy)
    model = rng.choice([None, MODEL, replace(MODEL, name="n" * 300, kv_heads=0, context=0)])
    model = rng.choice([model, MODEL and replace(MODEL, layers=200, heads=128, kv_heads=8)])
    owners = [rng.choice([-2, -1, *range(len(messages))]) for _ in range(rng.randrange(40))]
    xray = XRay(
        rng.random() < 0.5, rng.choice(["head", "layer", "locked", "rollout"]), 3, 1,
        rng.random() < 0.5, rng.random() < 0.5, rng.choice([None, 0, 7, 999]),
    )  # fmt: skip
    rows = AttentionRows(7, rng.choice(["from", "to"]), tuple(rng.random() for _ in range(30)))
    results, problems = [None, LensResult(5, lens())], ["", "no such position"]
    last = len(messages) - 1
    answered = last > 0 and messages[last].role == "assistant"
    compared = AnswerComparison(messages[last].id, messages[last].id) if answered else None
    state = AppState(
        xray=xray,
        compared=compared if answered and rng.random() < 0.3 else None,
        tree=ConversationTree(tuple(messages)),
        draft=rng.choice(TEXTS).replace("\x00", ""),
        running=running if busy else None,
        model=model,
        executor=rng.choice(
            [None, EXECUTOR, replace(EXECUTOR, device="d" * 400, backend="vulkan")]
        ),
        load=rng.choice([None, Load("s" * 200, "reading", rng.random())]),
        rates=tuple(
            RateSample(i * 0.1, i * 0.1 + 0.1, rng.randint(1, 99), answer=i // 7)
            for i in range(rng.choice([0, 1, 99]))
        ),
        theme=rng.choice(["dark", "light"]),
        font_size=rng.choice([10.0, 13.0, 15.0, 32.0]),
        recent=tuple(f"/m{i}.gguf" for i in range(rng.randrange(4))),
        devices=(DeviceChoice(0, "GPU", "discrete", False, "too old " * 20),),
        catalogue=(CatalogueEntry("name", "", "Title", "text"),),
        log=tuple(
            LogLine("error", "l" * rng.randrange(300), 0.0) for _ in range(rng.randrange(50))
        ),
        notices=tuple(
            Notice(i, "error", "n " * 80, 1e12, undo=True) for i in range(rng.randrange(4))
        ),
    )
    texts = [rng.choice(["a", "\n", " sky", "\ufffd"]) for _ in owners]
    state = with_cached(state, texts, sorted(owners), rng.randrange(20000))
    question = pointed_question(state)
    if question is not None:
        rows = rng.choice([rows, replace(rows, weights=(), note="not kept")])
        state = with_answer(state, ROWS, question, replace(rows, position=question.position))
    return with_answer(state, LENS, Inspect(5), rng.choice(results), rng.choice(problems))


@pytest.mark.parametrize("size", [(1280, 720), (640, 400), (3840, 2160)])
def test_any_state_is_drawn(headless, size):
    rng = random.Random(str(size))
    one = headless(size=size, scale=1.0 if size[0] < 3000 else 2.0)
    names = ["models", "sampler", "system_prompt", "settings", "executor", "", ""]
    for _ in range(25):
        one.program.state = random_state(rng)
        one.ui.opened = rng.choice(names)
        for view in VIEWS[1:]:
            if rng.random() < 0.3 and one.driver.shows(f"tab.{view.name}"):
                one.driver.click(f"tab.{view.name}")
        one.driver.frames(2)
        assert one.driver.shows("chat.input")
