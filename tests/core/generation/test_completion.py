"""A conversation that is one text, and the roles that a model invents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_lite.core.generation.prompt import encode_completion
from llm_lite.core.generation.role_ends import RoleEnds, role_ends
from llm_lite.core.generation.stop_strings import StopStrings
from llm_lite.core.messages import ChatMessage, GenerationStarted, TokenDecoded
from llm_lite.core.records import replace
from llm_lite.core.text.continued import is_text, pieces
from llm_lite.core.text.tokenizer import Tokenizer
from tests.core.engine_client import GREEDY
from tests.make_gguf import tokenizer_metadata, write_tiny_llama
from tests.runners import exact

TOKENIZER = Tokenizer.from_gguf(tokenizer_metadata(300), "tiny")


def text(content):
    return ChatMessage("text", content)


def answer(content, *tokens):
    return ChatMessage("assistant", content, tokens)


def test_a_text_goes_on_as_it_is():
    said = (text("Once upon"), answer(" a time."), text("Then"), answer(" it"), text(" rained\n"))
    assert pieces(said) == ["Once upon", " a time.", "\n\nThen", " it", " rained\n"]
    assert is_text(said) and not is_text((ChatMessage("user", "Hi"), answer("Hello")))
    assert pieces((ChatMessage("system", "A story."), text("Once"))) == ["A story.", "\n\nOnce"]


def test_answers_enter_as_their_tokens_and_what_is_typed_as_text():
    own = TOKENIZER.encode(" of old", parse_special=False)
    end = next(iter(TOKENIZER.end_ids))
    said = (text("In days <|im_end|>"), answer(" of old", *own, end), text("!"))
    encoded = encode_completion(TOKENIZER, said)
    assert not any(TOKENIZER.is_special(t) for t in encoded.ids if t != TOKENIZER.bos_id)
    assert TOKENIZER.decode(encoded.ids, skip_special=True) == "In days <|im_end|> of old\n\n!"
    at = [place for place, owner in enumerate(encoded.owners) if owner == 1]
    assert [encoded.ids[place] for place in at] == own
    assert sorted(set(encoded.owners)) in ([-1, 0, 1, 2], [0, 1, 2])
    assert encoded.thinking is None and not encoded.roles.begins_line
    assert encode_completion(TOKENIZER, (text("A poem:\n"),)).roles.begins_line


MARKS = RoleEnds(("\nUser:", "<|user|>"), frozenset(), begins_line=True)


@given(st.lists(st.sampled_from(["\n", "User", ":", "U", "ser:", "x", "<|user", "|>", " "])))
def test_an_answer_ends_before_the_first_role(parts):
    """However it is cut: of a line's beginning, the answer's own counts too."""
    stops, said = StopStrings((), None, MARKS), ""
    for part in parts:
        said += "".join(shown for _, shown in stops.feed(None, part))
        if stops.found:
            break
    else:
        said += "".join(shown for _, shown in stops.flush())
    whole = "".join(parts)
    if whole.startswith("User:"):
        expected = ""
    else:
        places = [whole.find(mark) for mark in MARKS.texts if mark in whole]
        expected = whole[: min(places)] if places else whole
    assert said == expected
    assert (stops.reason == "role") == (expected != whole or whole.startswith("User:"))


@pytest.mark.parametrize(
    "invented",
    ["\nUser:", "\nHuman: Hi", "\n### Human", "\n**Assistant:**", "<|user|>", "[INST]"],
)
def test_roles_that_models_invent(invented):
    stops = StopStrings((), None, role_ends(TOKENIZER, begins_line=False))
    shown = "".join(said for _, said in stops.feed(0, f"Fine.{invented} and more"))
    assert (shown, stops.reason) == ("Fine.", "role")


@pytest.mark.parametrize("fine", ["The User: a study", "Users:\n- Human\n", "a [INSTANT] b"])
def test_words_that_are_no_roles(fine):
    stops = StopStrings((), None, role_ends(TOKENIZER, begins_line=False))
    shown = [said for _, said in (*stops.feed(0, fine), *stops.flush())]
    assert ("".join(shown), stops.reason) == (fine, None)


def test_a_stop_string_of_a_person_is_told_as_one():
    stops = StopStrings(("\nUser:",), None, MARKS)
    stops.feed(0, "Yes\nUser:")
    assert stops.reason == "stop string"


def test_an_engine_continues_a_text(client, tmp_path):
    path = write_tiny_llama(tmp_path / "base.gguf", {"tokenizer.chat_template": ""}, context=512)
    model = client.load(path, exact("cpu")).model
    assert not model.has_chat_template
    said = (text("Once upon a time"),)
    _, first = client.ask(said)
    spoken = "".join(event.text for event in client.of(TokenDecoded))
    started = client.of(GenerationStarted)[-1]
    prompt = "".join(token.text for token in started.prompt if token.message == 0)
    assert prompt == "Once upon a time"
    raw = (ChatMessage("user", "Once upon a time"),)
    assert client.ask(raw, raw=True)[1] == first, "the same tokens as without any template"
    finished, _ = client.ask((*said, answer(spoken, *first), text("And then")))
    assert finished.stats.reused_tokens > 0


def test_a_chat_with_a_model_without_a_template_ends_at_a_role(client, tmp_path):
    """In the plain format: forced to write a line and a role's name, it is cut before them."""
    path = write_tiny_llama(tmp_path / "base.gguf", {"tokenizer.chat_template": ""}, context=512)
    client.load(path, exact("cpu"))
    invented = " Fine.\nUser: And you?"
    grammar = 'root ::= " Fine.\\nUser: And you?"'
    sampling = replace(GREEDY, max_new_tokens=60, grammar=grammar)
    finished, _ = client.ask((ChatMessage("user", "How are you?"),), sampling)
    said = "".join(event.text for event in client.of(TokenDecoded))
    assert (said, finished.stop_reason) == (" Fine.", "role")
    finished, _ = client.ask((ChatMessage("user", "How are you?"),), sampling, raw=True)
    said = "".join(event.text for event in client.of(TokenDecoded, client.handles[-1]))
    assert said == invented and finished.stop_reason == "end", "a raw text goes on"
