"""Stop strings, however the answer is cut into tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_lite.core.generation.stop_strings import StopStrings
from llm_lite.core.messages import ChatMessage, Thinking, TokenDecoded
from llm_lite.core.records import replace
from llm_lite.core.text.tokenizer import Tokenizer
from tests.core.engine_client import GREEDY, HELLO
from tests.make_gguf import tokenizer_metadata, write_tiny_llama


def shown(strings, pieces, thinking=None):
    stops, texts = StopStrings(strings, thinking), []
    for piece in pieces:
        texts += [text for _, text in stops.feed(None, piece)]
        if stops.found:
            return "".join(texts), True
    return "".join([*texts, *(text for _, text in stops.flush())]), False


@given(st.lists(st.text("ab", max_size=3)), st.lists(st.text("ab", min_size=1, max_size=4)))
def test_the_answer_ends_before_the_first_one(pieces, strings):
    """However it is cut: what is shown is what stands before the first stop string to be whole."""
    stops, whole, said = StopStrings(strings), "", ""
    for piece in pieces:
        whole += piece
        said += "".join(text for _, text in stops.feed(None, piece))
        places = [whole.find(s) for s in strings if s in whole]
        assert stops.found == bool(places)
        if places:
            assert said == whole[: min(places)]
            return
        assert whole.startswith(said)
        rest = whole[len(said) :]
        assert not any(s.startswith(rest) for s in strings) or rest or said == whole
    assert said + "".join(text for _, text in stops.flush()) == whole


def test_what_may_become_one_is_held_back():
    stops = StopStrings(("\n\nUser:",))
    assert stops.feed(1, "Yes.") == [(1, "Yes.")]
    assert stops.feed(2, "\n") == []
    assert stops.feed(3, "\nUs") == []
    assert stops.feed(4, "ual") == [(2, "\n"), (3, "\nUs"), (4, "ual")]
    assert stops.feed(5, "ly\n\n") == []
    assert stops.feed(6, "User: x") == [(5, "ly")]
    assert (stops.found, stops.dropped) == (True, 1)


def test_without_any_nothing_waits():
    assert StopStrings(()).feed(1, "text") == [(1, "text")]


@pytest.mark.parametrize("inside", [False, True])
def test_thoughts_are_not_searched(inside):
    thinking = Thinking("think", inside=inside)
    pieces = ["" if inside else "<think>", "a STOP b", "</thi", "nk>\n\nYes", ". ST", "OP no"]
    told, found = shown(["STOP"], pieces, thinking)
    assert found and told.endswith("a STOP b</think>\n\nYes. ")


def test_an_engine_s_answer_ends_before_it(client, tiny_llama):
    client.load(tiny_llama)
    finished, tokens = client.ask()
    texts = [event.text for event in client.of(TokenDecoded)]
    whole = "".join(texts)
    stop = whole[3:5]
    sampling = replace(GREEDY, stop=(stop,))
    finished, stopped = client.ask(sampling=sampling)
    said = "".join(event.text for event in client.of(TokenDecoded, client.handles[-1]))
    assert finished.stop_reason == "stop string"
    assert said == whole[: whole.find(stop)]
    assert stopped == tokens[: len(stopped)], "no token of the stop string is told"
    turns = (*HELLO, ChatMessage("assistant", said, tuple(stopped)), ChatMessage("user", "And?"))
    again, _ = client.ask(turns)
    assert again.stats.reused_tokens > 0


def test_what_was_held_back_comes_at_the_end(client, tiny_llama):
    client.load(tiny_llama)
    client.ask()
    whole = "".join(event.text for event in client.of(TokenDecoded))
    finished, _ = client.ask(sampling=replace(GREEDY, stop=(whole[-1] + "\0",)))
    said = "".join(event.text for event in client.of(TokenDecoded, client.handles[-1]))
    assert (finished.stop_reason, said) == ("length", whole)


OPENING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)


def test_a_thought_ends_when_its_tokens_are_used_up(client, tmp_path):
    path = tmp_path / "thinker.gguf"
    write_tiny_llama(path, {"tokenizer.chat_template": OPENING}, context=256)
    client.load(path)
    sampling = replace(GREEDY, max_new_tokens=40, max_thinking_tokens=5)
    client.ask(sampling=sampling)
    said = "".join(event.text for event in client.of(TokenDecoded))
    assert "\n</think>\n\n" in said
    tokens = [event.token for event in client.of(TokenDecoded)]
    free = client.ask(sampling=replace(GREEDY, max_new_tokens=5))[1]
    assert tokens[:5] == free, "five are the model's own, and the end mark follows"
    mark = Tokenizer.from_gguf(tokenizer_metadata(300), "tiny").encode("\n</think>\n\n")
    assert tokens[5 : 5 + len(mark)] == mark
