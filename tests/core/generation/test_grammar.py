"""Answers that keep to a grammar: what may come next, and what is refused."""

import json
from functools import partial

import jsonschema
import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.generation.grammars.grammar import Grammar, check_grammar
from llm_lite.core.generation.guide import guide_of
from llm_lite.core.loading import loader
from llm_lite.core.messages import SamplingOptions, Thinking, TokenDecoded
from llm_lite.core.records import replace
from llm_lite.core.text.tokenizer import Tokenizer
from tests.core.engine_client import GREEDY
from tests.make_gguf import tokenizer_metadata
from tests.runners import exact

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
TOKENIZER = Tokenizer.from_gguf(tokenizer_metadata(300), "tiny")


@pytest.fixture(scope="module")
def smollm2_tokenizer(smollm2):
    file = loader.open_model(str(smollm2), lambda *_: None, lambda text: None)
    yield file.tokenizer
    file.close()


def allowed(mask):
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


def texts(tokenizer, mask):
    return {tokenizer.token_bytes(token) for token in allowed(mask)}


def test_the_end_is_allowed_where_the_grammar_is_complete_and_nowhere_else(smollm2_tokenizer):
    tokenizer = smollm2_tokenizer
    grammar = Grammar(SamplingOptions(grammar='root ::= "yes" | "no" "!"?'), tokenizer)
    assert texts(tokenizer, grammar.mask()) >= {b"y", b"ye", b"yes", b"n", b"no"}
    assert not allowed(grammar.mask()) & tokenizer.end_ids
    for token in tokenizer.encode("no"):
        grammar.take(token)
    after = allowed(grammar.mask())
    assert after >= tokenizer.end_ids
    assert texts(tokenizer, grammar.mask()) >= {b"!"}
    grammar.take(tokenizer.encode("!")[0])
    assert allowed(grammar.mask()) == set(tokenizer.end_ids)


def test_an_answer_ends_where_its_object_has_what_the_schema_names(smollm2_tokenizer):
    tokenizer = smollm2_tokenizer
    for more, goes_on in (({}, False), ({"additionalProperties": True}, True)):
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
        text = json.dumps({**schema, **more})
        grammar = Grammar(SamplingOptions(json_schema=text), tokenizer)
        for token in tokenizer.encode('{"a": 1'):
            grammar.take(token)
        assert (b"," in texts(tokenizer, grammar.mask())) == goes_on


def test_special_tokens_are_never_text(smollm2_tokenizer):
    tokenizer = smollm2_tokenizer
    grammar = Grammar(SamplingOptions(grammar="start: /(.|\\n)+/"), tokenizer)
    grammar.take(tokenizer.encode("a")[0])
    special = {t for t in range(tokenizer.vocab_size) if tokenizer.is_special(t)}
    assert allowed(grammar.mask()) & special == set(tokenizer.end_ids)


def test_a_token_that_does_not_fit_is_a_sentence():
    grammar = Grammar(SamplingOptions(grammar='root ::= "a"'), TOKENIZER)
    grammar.check()
    with pytest.raises(RequestError, match=r"the answer does not fit the grammar: .* 'b' here"):
        grammar.take(TOKENIZER.encode("b")[0])


def test_a_grammar_that_no_token_spells_ends_the_answer():
    grammar = Grammar(SamplingOptions(grammar="start: /[^\\x00-\\x{10FFFF}]/"), TOKENIZER)
    with pytest.raises(RequestError, match="grammar"):
        grammar.mask()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"json_schema": "{\n  nothing\n}"}, "the JSON schema is broken in line 2: Expecting"),
        ({"json_schema": "[1]"}, "the JSON schema is broken in line 1: expected an object"),
        ({"json_schema": '{\n "type":\n "foo"}'}, "broken in line 3: Invalid type: foo"),
        ({"json_schema": '{\n"$ref": "#/nope"}'}, "broken in line 2: Pointer '/nope'"),
        ({"json_schema": '{\n"not": {}}'}, 'broken in line 2: "not" of everything'),
        ({"json_schema": "[" * 100_000}, "the JSON schema"),
        ({"json_schema": "9" * 5000}, "the JSON schema"),
        ({"json_schema": " " * 300_000}, "expected at most 262144 characters, found 300000"),
        ({"grammar": 'start: foo\nbar: "a"\n'}, 'broken in line 1: unknown name: "foo"'),
        ({"grammar": 'start: "a"\nb: "a" (\n'}, "broken in line 2: Expected token"),
        ({"grammar": 'root ::= "a"\nb :: "c"'}, "broken in line 2: expected ::="),
        ({"grammar": 'root ::= "a" foo'}, "broken in line 1: there is no rule 'foo'"),
        ({"grammar": 'a ::= "a"'}, 'has no rule "root"'),
        ({"grammar": "root ::= " + "(" * 5000}, "nested too deeply"),
        ({"grammar": "start: " + "(" * 5000}, "nested"),
        ({"grammar": "start: /(/"}, "broken in line 1"),
        ({"grammar": " "}, "grammar"),
        ({"grammar": "\0"}, "grammar"),
    ],
)
def test_what_is_broken_is_one_sentence(changes, sentence):
    sampling = SamplingOptions(**changes)
    for refused in (partial(check_grammar, sampling), Grammar(sampling, TOKENIZER).check):
        with pytest.raises(RequestError) as error:
            refused()
        assert sentence in str(error.value)
        assert "\n" not in str(error.value) and len(str(error.value)) < 400


@pytest.mark.parametrize(
    "grammar",
    [
        "start: /(a|b)*a(a|b){3000}c/",
        "start: a{0,1000}\na: b{0,1000}\nb: c{0,1000}\nc: /x/{0,1000}",
        "start: start start | /a/ | /aa/ | /aaa/ | /a*/",
        "start: /(.*a){0,500}(.*b){0,500}(.*a){0,500}/",
        "start: start",
    ],
)
def test_a_grammar_that_explodes_ends_in_a_sentence_or_goes_on(grammar):
    """What bounds it is llguidance's count of states and items: no step takes long."""
    token = TOKENIZER.encode("a")[0]
    try:
        one = Grammar(SamplingOptions(grammar=grammar), TOKENIZER)
        for _ in range(200):
            one.mask()
            one.take(token)
    except RequestError as error:
        assert "grammar" in str(error)


def test_an_engine_s_answer_is_of_the_schema(client, smollm2):
    client.load(smollm2, exact("cpu"))
    sampling = SamplingOptions(
        temperature=1.0, seed=1, max_new_tokens=100, json_schema=json.dumps(SCHEMA)
    )
    finished, _ = client.ask(sampling=sampling)
    decoded = client.of(TokenDecoded)
    said = "".join(event.text for event in decoded[:-1])
    assert finished.stop_reason == "end", said
    jsonschema.validate(json.loads(said), SCHEMA)
    assert decoded[0].probability < 0.5, "that of the model, which would not have begun so"
    forbidden = decoded[0].alternatives[0]
    assert forbidden.token != decoded[0].token, "what it would have said is told"


def test_an_answer_is_continued_within_its_grammar(client, smollm2):
    client.load(smollm2, exact("cpu"))
    greedy = replace(GREEDY, max_new_tokens=60, grammar='root ::= "one, two, three"')
    finished, whole = client.ask(sampling=greedy)
    assert finished.stop_reason == "end"
    forced = tuple(whole[:2])
    finished, again = client.ask(sampling=greedy, forced=forced)
    assert (finished.stop_reason, again) == ("end", whole)
    wrong = tuple(client_tokens(client, "four"))
    problem = client.refusal(sampling=greedy, forced=wrong)
    assert "the answer does not fit the grammar" in problem


def client_tokens(client, text):
    return client.engine._host.file.tokenizer.encode(text)


def test_a_broken_grammar_is_told_before_the_prompt_is_read(client, tiny_llama):
    client.load(tiny_llama)
    sampling = replace(GREEDY, grammar="start: nothing")
    assert client.refusal(sampling=sampling).startswith("the grammar is broken in line 1:")
    assert not client.of(TokenDecoded)
    assert client.ask()[0].stop_reason == "length", "the engine goes on"


def told(guide, text):
    """The tokens that the guide hears: what it wants itself comes first."""
    for token in TOKENIZER.encode(text):
        assert guide.due() in (None, token)
        guide.take(token)


def test_a_thought_is_free_and_the_grammar_begins_behind_it():
    sampling = SamplingOptions(grammar='root ::= "a" | "b"')
    guide = guide_of(TOKENIZER, sampling, Thinking("think"))
    begin = TOKENIZER.encode("<think>")
    assert allowed(guide.mask()) == {*TOKENIZER.encode("a"), *TOKENIZER.encode("b"), begin[0]}
    told(guide, "<think>")
    assert guide.mask() is None and guide.due() is None
    told(guide, "what would c be?")
    assert guide.mask() is None
    told(guide, "</think>\n\n")
    assert guide.due() is None
    assert allowed(guide.mask()) == {*TOKENIZER.encode("a"), *TOKENIZER.encode("b")}
    told(guide, "a")
    assert allowed(guide.mask()) == set(TOKENIZER.end_ids)


def test_where_thinking_is_off_the_grammar_begins_at_once():
    sampling = SamplingOptions(grammar='root ::= "a"')
    guide = guide_of(TOKENIZER, sampling, Thinking("think"), may_think=False)
    assert allowed(guide.mask()) == set(TOKENIZER.encode("a"))


def test_a_thought_that_is_ended_for_its_length_is_followed_by_the_grammar():
    sampling = SamplingOptions(grammar='root ::= "a"', max_thinking_tokens=3)
    guide = guide_of(TOKENIZER, sampling, Thinking("think", inside=True))
    for token in TOKENIZER.encode("xyz"):
        assert guide.due() is None and guide.mask() is None
        guide.take(token)
    ending = []
    while (token := guide.due()) is not None:
        guide.take(token)
        ending.append(token)
    assert TOKENIZER.decode(ending) == "\n</think>\n\n"
    assert allowed(guide.mask()) == set(TOKENIZER.encode("a"))


def test_nothing_to_guide_costs_nothing():
    assert guide_of(TOKENIZER, SamplingOptions(), Thinking("think")) is None


def test_a_call_may_stand_in_place_of_what_the_grammar_asks_for():
    sampling = SamplingOptions(grammar='root ::= "a" | "b"')
    guide = guide_of(TOKENIZER, sampling, None, calls=("<tool_call>",))
    mark = TOKENIZER.encode("<tool_call>")
    letters = {*TOKENIZER.encode("a"), *TOKENIZER.encode("b")}
    assert allowed(guide.mask()) == {*letters, mark[0]}
    for token in mark:
        guide.take(token)
    assert guide.mask() is None and guide.due() is None, "a call is the model's own"
    told(guide, "anything</tool_call>")
    assert guide.mask() is None
    guide = guide_of(TOKENIZER, sampling, None, calls=("<tool_call>",))
    told(guide, "a")
    assert allowed(guide.mask()) == set(TOKENIZER.end_ids), "it is too late for one"


@pytest.mark.parametrize("call", [False, True])
def test_behind_a_thought_stands_a_call_or_what_the_grammar_asks_for(call):
    sampling = SamplingOptions(grammar='root ::= "a"')
    calls = ("<|start|>assistant to=",)
    guide = guide_of(TOKENIZER, sampling, Thinking("harmony"), calls=calls)
    told(guide, "<|channel|>analysis<|message|>who?<|end|>")
    told(guide, "<|start|>assistant")
    begun = {TOKENIZER.encode(text)[0] for text in ("<|channel|>final", " to=")}
    assert guide.due() is None and allowed(guide.mask()) == begun, "they part here"
    if call:
        told(guide, " to=")
        assert guide.mask() is None
        told(guide, "functions.x<|channel|>commentary json<|message|>{}<|call|>")
        assert guide.mask() is None
    else:
        told(guide, "<|channel|>final<|message|>")
        first = {TOKENIZER.encode(text)[0] for text in ("a", calls[0])}
        assert allowed(guide.mask()) == first


def test_a_call_whose_mark_begins_as_the_grammar_may_is_told_apart_by_what_comes():
    sampling = SamplingOptions(grammar='root ::= "[" [0-9] "]" | "[T]"')
    mark = "[TOOL_CALLS]"
    if len(TOKENIZER.encode(mark)) == 1:
        pytest.skip("the mark is one token here")
    for text, is_call in (("[1]", False), ("[T]", False), (mark, True)):
        guide = guide_of(TOKENIZER, sampling, None, calls=(mark,))
        for token in TOKENIZER.encode(text):
            mask = guide.mask()
            assert mask is None or token in allowed(mask), text
            guide.take(token)
        assert (guide.mask() is None) == is_call
