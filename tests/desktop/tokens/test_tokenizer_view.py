"""The tokenizer view used through ImGui's input queue: typing, stages, steps, two tokenizers."""

from itertools import pairwise

import pytest
from imgui_bundle import imgui

from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import (
    EngineOptions,
    Generate,
    LoadModel,
    TextTokenized,
    TokenizeText,
    ToolSpec,
)
from llm_lite.core.messages.inspecting.tokenizing import MergeSteps
from llm_lite.core.records import replace
from llm_lite.core.text.token_spelling import shown, symbol_shown
from llm_lite.desktop.features.program.state import AppState, Message, Running
from llm_lite.desktop.features.tokenizer.chips import Chip, lay_out_chips
from llm_lite.desktop.features.tokenizer.examples import EXAMPLES, LANGUAGES
from llm_lite.desktop.features.tokenizer.lattice import arriving, stacked
from llm_lite.desktop.features.tokenizer.merges import moment
from llm_lite.desktop.features.tokenizer.model import TOKENS, ChooseTokenizing, question
from llm_lite.desktop.features.tokenizer.state import (
    MODEL,
    OTHER,
    TokenizerChoice,
    most_cut_word,
)
from llm_lite.desktop.features.tokenizer.view import result_of
from llm_lite.desktop.features.tools.state import DECLARED
from tests.counting import python_calls
from tests.desktop.cached import with_answer
from tests.desktop.engine.engine import FIXTURES, ScriptedEngine
from tests.desktop.headless import READY, sent
from tests.desktop.program.outside_text import with_text

KINDS = ("qwen", "t5", "bert", "llama")
STAGES = ("tokens", "text", "steps", "compare")


def choose(one, **changes):
    one.program.do(ChooseTokenizing(replace(one.state.tokenizer, **changes)))
    one.driver.frames(3)


def answered(slot=MODEL):
    def is_answered(state):
        tokens, told = TOKENS[slot], result_of(state, slot)
        same = told and told.text == state.tokenizer.text
        return tokens.waiting(state) is None and (tokens.problem(state) or same)

    return is_answered


@pytest.fixture
def view(headless):
    """The view in front, with the first example cut by a byte-level tokenizer."""
    one = headless(AppState(), size=(1400, 1500))
    engine = ScriptedEngine(0.0)
    one.program.start(engine)
    engine.submit(LoadModel(None))
    one.driver.wait("the model", lambda s: s.model is not None)
    one.driver.click("tab.tokenizer")
    one.driver.wait("the tokens", answered())
    one.driver.frames(3)
    return one, engine


def with_result(state, result):
    """The state with this answer of both tokenizers."""
    for slot, tokens in enumerate(TOKENS):
        state = with_answer(state, tokens, question(state, slot), TextTokenized(result))
    return state


def told(name, text="An unbelievable 한국어 sentence, of 2024!"):
    """What the tokenizer of that name says of a text."""
    from llm_lite.core.loading.tokenizers import open_tokenizer

    return open_tokenizer(str(FIXTURES / name / "tokenizer.json")).stages(text, False)


def test_a_hidden_view_asks_nothing(headless):
    one = headless(AppState(), size=(1400, 900))
    engine = ScriptedEngine(0.0)
    one.program.start(engine)
    one.driver.frames(10)
    assert not sent(engine, TokenizeText)


def test_typed_text_is_cut_once_typing_rests(view):
    one, engine = view
    one.driver.click("tokenizer.text")
    before = len(sent(engine, TokenizeText))
    for letter in "xyz":
        one.driver.type(letter)
    one.driver.wait("the tokens", lambda s: s.tokenizer.text.endswith("xyz") and answered()(s))
    asked = sent(engine, TokenizeText)[before:]
    assert asked and asked[-1].text.endswith("xyz") and asked[-1].slot == MODEL
    assert len(asked) <= 3
    result = result_of(one.state, MODEL)
    assert len(result.pieces) == result.tokens
    assert one.driver.shows("tokenizer.piece.0")


def test_examples_and_control_tokens(view):
    one, _ = view
    one.driver.click("tokenizer.example.mixed")
    one.driver.wait("the tokens", answered())
    assert one.state.tokenizer.text == EXAMPLES[3][3]
    plain = result_of(one.state, MODEL)
    assert not any(word.marked for word in plain.words)
    one.driver.click("tokenizer.control")
    one.driver.wait(
        "the control token",
        lambda s: any(word.marked for word in result_of(s, MODEL).words),
    )
    assert result_of(one.state, MODEL).tokens < plain.tokens


def test_words_play_their_steps(view):
    one, _ = view
    one.driver.click("tokenizer.stage.steps")
    choice = one.state.tokenizer
    result = result_of(one.state, MODEL)
    most = most_cut_word(result)
    last = result.words[most].steps.count
    assert last > 3 and choice.step is None
    one.driver.click("tokenizer.back")
    assert one.state.tokenizer.step == last - 1
    one.driver.click("tokenizer.merge.0")
    assert one.state.tokenizer.step == 1
    one.driver.click("tokenizer.on")
    assert one.state.tokenizer.step == 2
    one.driver.click("tokenizer.play")
    assert one.state.tokenizer.playing
    one.driver.wait("the end", lambda s: not s.tokenizer.playing)
    assert one.state.tokenizer.step == last
    one.driver.click("tokenizer.word.0")
    assert one.state.tokenizer.word == 0 and one.state.tokenizer.playing


def test_two_tokenizers_side_by_side(view):
    one, _ = view
    one.driver.click("tokenizer.stage.compare")
    choose(one, other=str(FIXTURES / "bert" / "tokenizer.json"))
    one.driver.wait("both", lambda s: answered(OTHER)(s) and TOKENS[MODEL].answer(s).samples)
    first, second = (tokens.answer(one.state) for tokens in TOKENS)
    assert (first.result.kind, second.result.kind) == ("BPE", "WordPiece")
    assert len(first.samples) == len(second.samples) == len(LANGUAGES)
    one.driver.frames(2)
    assert one.driver.shows("tokenizer.beside.1.0") and one.driver.shows("tokenizer.languages")
    one.driver.click("tokenizer.stage.steps")
    assert one.driver.shows("tokenizer.merging")
    one.driver.click("tokenizer.slot.other")
    assert one.driver.shows("tokenizer.matching") and not one.driver.shows("tokenizer.merging")


def test_a_broken_tokenizer_is_a_sentence(view, tmp_path):
    one, _ = view
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    one.driver.click("tokenizer.stage.compare")
    choose(one, other=str(path))
    one.driver.wait("the sentence", lambda s: TOKENS[OTHER].problem(s) != "")
    one.driver.frames(2)
    assert one.driver.shows("tokenizer.problem.1")
    assert "is not a tokenizer that can be read" in TOKENS[OTHER].problem(one.state)


def test_the_prompt_follows_the_conversation():
    """As its next message the text has other tokens in another conversation, behind another
    system prompt, with functions or without; an answer that is written is not part of it yet."""
    model = replace(READY.model, tool_style="hermes")
    state = replace(READY, model=model, tokenizer=replace(READY.tokenizer, form="chat"))
    tokens, known = TOKENS[MODEL], TextTokenized(told("qwen"))
    state = with_answer(state, tokens, question(state, MODEL), known)
    assert tokens.answer(state) is known and not tokens.wanted(state, question(state, MODEL))
    said = ConversationTree((Message("user", "Hi"), Message("assistant", "Ha")))
    tools = replace(
        state.tools, functions=(ToolSpec("lists"),), on=frozenset({(DECLARED, "lists")})
    )
    changes = {"tree": said, "system_prompt": "Be brief.", "thinking": False, "tools": tools}
    for name, value in changes.items():
        other = replace(state, **{name: value})
        assert tokens.answer(other) is None, name
        (asks,) = tokens.wanted(other, question(other, MODEL))
        assert asks.question != question(state, MODEL), name
        plain = replace(other, tokenizer=replace(state.tokenizer, form="plain"))
        assert question(plain, MODEL).messages is None
    writing = replace(state, tree=said, running=Running(Generate(()), 0.0))
    assert [one.content for one in question(writing, MODEL).messages] == [
        "Hi",
        state.tokenizer.text,
    ]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("size", [(1280, 720), (1500, 1400)])
def test_every_kind_is_drawn_at_every_step(headless, name, size):
    """In small panels and large, with the tokenizer's own words and with any others."""
    one = headless(READY, size=size)
    one.driver.click("tab.tokenizer")
    result = told(name)
    strange = with_text(result, lambda: "a\udcff\x00\n\u202eb" * 40)
    for shown_result in (result, strange):
        one.program.state = with_result(one.state, shown_result)
        for stage in STAGES:
            choose(one, stage=stage, text=result.text)
        choose(one, stage="steps")
        for word in range(len(result.words)):
            steps = result.words[word].steps
            for step in (0, 1, steps.count if steps else 0, 99):
                choose(one, word=word, step=step)
        one.driver.point("tokenizer.word.0")


def test_moments_are_those_of_the_merges():
    for word in told("llama").words:
        assert isinstance(word.steps, MergeSteps)
        for count in range(len(word.steps.merges) + 1):
            now = moment(word.steps, count)
            assert len(now.pieces) == len(now.starts) == len(word.steps.symbols) - count
            if now.lowest is not None:
                following = word.steps.merges[count]
                assert (now.lowest, now.ranks[now.lowest]) == (following.at, following.rank)
        assert moment(word.steps, 9999).lowest is None


def test_bars_of_a_lattice_do_not_overlap():
    for word in told("t5").words:
        bars = stacked(word.steps)
        for row in range(bars.count):
            edges = [e for e, at in zip(word.steps.edges, bars.rows, strict=True) if at == row]
            edges.sort(key=lambda edge: edge.start)
            for one, two in pairwise(edges):
                assert one.end <= two.start
        best = [word.steps.edges[number] for number in word.steps.best]
        assert arriving(word.steps, len(word.spelled)) == best[-1]


def test_what_cannot_be_seen_has_a_sign():
    assert shown(" a\n\t") == "␣a⏎→"
    assert shown("\u0301") == "◌" + "\u0301"
    assert shown("\u200d") == "U+200D"
    assert shown("\u1112") == "ㅎ" and shown("\u1112\u1161\u11ab") == "한"
    assert symbol_shown("Ġthe", True) == "␣the"
    assert symbol_shown("íķ", True) == "ED 95"
    assert symbol_shown("<0xE2>", False) == "E2"
    assert len(shown("x" * 9000)) == 48


def test_a_long_text_costs_a_frame_no_more_than_a_short_one(headless):
    """Only what is in sight is drawn; counted, not timed."""
    one = headless(READY, size=(1280, 720))
    one.driver.click("tab.tokenizer")
    calls = {}
    for many in (120, 2400):
        result = told("qwen", "the model is 하늘 " * many)
        one.program.state = with_result(one.state, result)
        for stage in STAGES[:3]:
            choose(one, stage=stage, text=result.text)
            one.driver.frames(30)  # pieces have flown together
            calls[stage, many] = python_calls(one.draw)
    for stage in STAGES[:3]:
        assert calls[stage, 2400] <= calls[stage, 120] * 1.2 + 50, calls


def test_chips_wrap_and_are_found_where_they_lie(headless):
    one = headless(READY)
    imgui.new_frame()
    chips = [Chip(f"w{number}", "1", number == 4) for number in range(40)]
    page = lay_out_chips(one.ui, chips, 200.0, 2.0)
    imgui.end_frame()
    assert page.boxes[5].x == 0 and page.boxes[5].line == page.boxes[4].line + 1
    for number, box in enumerate(page.boxes):
        assert box.x >= 0 and box.x + box.width <= 200
        at = (box.x + box.width / 2, box.line * page.pitch + 2)
        assert page.at(*at) == number
        assert number in page.between(at[1], at[1])
    assert page.at(-1, 1) is None and page.at(1, -1) is None
    assert list(page.between(0, page.height)) == list(range(40))


def test_a_conversation_is_told_with_its_template(headless):
    """By the real engine and the bundled model."""
    from llm_lite.core.engine.engine import Engine

    one = headless(replace(AppState(), options=EngineOptions(backend="cpu")), size=(1400, 1400))
    one.program.start(Engine(None))
    one.program.engine.submit(LoadModel(None, EngineOptions(backend="cpu")))
    one.driver.wait("the model", lambda s: s.model is not None)
    one.driver.click("tab.tokenizer")
    one.driver.wait("the tokens", answered())
    one.driver.click("tokenizer.chat")
    one.driver.wait("the prompt", lambda s: result_of(s, MODEL) and result_of(s, MODEL).typed)
    result = result_of(one.state, MODEL)
    (span,) = result.typed
    assert result.text[slice(*span)] == TokenizerChoice().text
    control = [word.spelled for word in result.words if word.control]
    assert control == ["<|im_start|>", "<|im_end|>"] * 2 + ["<|im_start|>"]
