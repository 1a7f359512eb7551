"""Answers of an engine and of a server: the guard ends loops alone, drafts or none."""

import random
import re

import pytest

from llm_lite.core.generation.endings import Endings
from llm_lite.core.generation.prompt import Encoded
from llm_lite.core.generation.repetition import PROSE, repeats
from llm_lite.core.messages import ChatMessage, SamplingOptions, Thinking, TokenDecoded
from llm_lite.core.records import replace
from llm_lite.core.text.tokenizer import Tokenizer
from tests.core.engine_client import HELLO
from tests.core.serving.clients import Asked, serve
from tests.make_gguf import tokenizer_metadata, write_tiny_llama
from tests.runners import exact

LONG = 300
LETTER = Tokenizer.from_gguf(tokenizer_metadata(300), "tiny").encode("a", parse_special=False)[0]
LOOPING = SamplingOptions(
    temperature=0.0, max_new_tokens=2 * LONG, logit_bias=((LETTER, 100.0),)
)  # the same letter again and again
FREE = SamplingOptions(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=4, max_new_tokens=LONG)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_tiny_llama(tmp_path_factory.mktemp("guard") / "tiny.gguf", context=1024)


def without(sampling):
    return replace(sampling, repetition_guard=False)


def looping_at(events):
    told = [event for event in events if isinstance(event, TokenDecoded)]
    return repeats([event.token for event in told], [event.text for event in told])


@pytest.mark.parametrize("speculate", ["off", "lookup"])
def test_an_engine_s_answer_ends_where_it_loops(client, model, speculate):
    client.load(model, exact("cpu", speculate=speculate))
    finished, tokens = client.ask(HELLO, LOOPING)
    assert finished.stop_reason == "repetition" and len(tokens) == PROSE[0].tokens
    assert looping_at(client.of(TokenDecoded)) == len(tokens)
    finished, free = client.ask(HELLO, without(LOOPING))
    assert (finished.stop_reason, len(free)) == ("length", 2 * LONG)
    assert free[: len(tokens)] == tokens
    finished, again = client.ask(HELLO, LOOPING)
    assert again == tokens, "what was cached before changes nothing"
    assert (finished.stats.drafted > 0) == (speculate == "lookup")


def test_what_a_person_asks_to_be_repeated_goes_on(client, model):
    """The message reaches the guard, of the chat and of a client."""
    client.load(model, exact("cpu"))
    asked = (ChatMessage("user", "Write the letter a 1000 times."),)
    finished, tokens = client.ask(asked, LOOPING)
    assert (finished.stop_reason, len(tokens)) == ("length", 2 * LONG)
    service = serve(client, "off", parallel=2)
    assert Asked(service, messages=asked, sampling=LOOPING).finished().stop_reason == "length"


def test_what_does_not_loop_is_the_same_to_the_bit(client, model):
    client.load(model, exact("cpu"))
    client.ask(HELLO)  # the prompt is in the cache for all that follow
    told = []
    for seed in range(8):
        sampling = replace(FREE, seed=seed)
        for one in (sampling, without(sampling)):
            client.ask(HELLO, one)
            events = client.of(TokenDecoded, client.handles[-1])
            told.append([(event.token, event.text, event.probability) for event in events])
    assert told[::2] == told[1::2]
    assert sum(map(len, told)) > LONG


@pytest.mark.parametrize("speculate", ["off", "lookup"])
def test_a_served_answer_ends_where_it_loops(client, model, speculate):
    client.load(model, exact("cpu"))
    service = serve(client, speculate, parallel=2)
    asked = Asked(service, messages=HELLO, sampling=LOOPING)
    assert asked.finished().stop_reason == "repetition"
    assert len(asked.tokens()) == PROSE[0].tokens
    free = Asked(service, messages=HELLO, sampling=without(LOOPING))
    assert free.finished().stop_reason == "length"
    assert free.tokens()[: PROSE[0].tokens] == asked.tokens()


def test_an_answer_that_is_continued_gets_another_chance(client, model):
    """A person has asked for more of it: what was said before counts no more."""
    client.load(model, exact("cpu"))
    _, tokens = client.ask(HELLO, LOOPING)
    said = "".join(event.text for event in client.of(TokenDecoded))
    turns = (*HELLO, ChatMessage("assistant", said, tuple(tokens)))
    finished, more = client.ask(turns, LOOPING, continue_last=True)
    assert finished.stop_reason == "repetition" and len(more) == PROSE[0].tokens


def drafted(thinking):
    """Why an answer ends that drafts a story twice, by the thought that its prompt has begun, and
    then tells it; None: it goes on."""
    draw = random.Random(3)
    words = ("river", "mountain", "silver", "morning", "garden", "window", "castle", "bridge")
    story = " ".join(
        "The {} {} the {} before it reached the {}.".format(*draw.choices(words, k=4))
        for _ in range(30)
    )
    text = f"First:\n{story}\n\nBetter:\n{story}\n</think>\n\n{story}\n"
    endings = Endings(SamplingOptions(), Encoded([], [], thinking=thinking))
    ids: dict[str, int] = {}
    for piece in re.findall(r"\s?\w+|\s|[^\w\s]", text):
        endings.feed(piece, ids.setdefault(piece, len(ids)), piece)
    return endings.reason


def test_an_answer_may_say_what_its_thought_has_drafted():
    assert drafted(Thinking("think", inside=True)) is None
    assert drafted(None) == "repetition"


def test_a_thought_s_work_does_not_grow_with_it():
    endings = Endings(SamplingOptions(), Encoded([], [], thinking=Thinking("think", inside=True)))
    for token in range(4000):
        endings.feed(token, token, f" w{token}")
    assert endings._thought is not None
    assert len(endings._thought.raw + endings._thought.thoughts) == 0
