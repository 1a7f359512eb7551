"""Tokens of the cache mapped to the text of the conversation."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.core.records import replace
from llm_lite.desktop.features.tokens.state import (
    SYSTEM,
    TEMPLATE,
    XRay,
    align,
    cut,
    ending,
    passage,
    places,
)
from tests.desktop.engine.model import MODEL

T, S = TEMPLATE, SYSTEM


def cut_up(text, spans):
    return [text[low:high] for low, high in spans]


def test_places_know_what_the_template_puts_before_a_message():
    found = places((T, S, S, T, 0, 0, T, T, 1, 1, T))
    assert (found[0].lead, found[0].start, found[0].stop) == (0, 4, 6)
    assert (found[1].lead, found[1].start, found[1].stop) == (6, 8, 10)
    assert set(found) == {0, 1}
    assert places(()) == {}


def test_what_belongs_to_later_messages_is_cut_off():
    owners = (T, 0, 0, T, 1, T, 2)
    assert cut(owners, 1) == (T, 0, 0, T)
    assert cut(owners, 0) == (T,)
    assert cut(owners, 3) == owners


def test_tokens_are_found_in_their_text():
    assert cut_up("The sky", align("The sky", ["The", " sky"])) == ["The", " sky"]
    # trimmed by the template, and with a space that the vocabulary adds
    assert cut_up("  hi you ", align("  hi you ", ["hi", " you"])) == ["hi", " you"]
    assert cut_up("hi you", align("hi you", [" hi", " you"])) == ["hi", " you"]


def test_parts_of_characters_share_them():
    text = "a 하늘 b"
    pieces = ["a", " ", "\ufffd", "\ufffd", "\ufffd", "\ufffd", " b"]
    assert cut_up(text, align(text, pieces)) == ["a", " ", "", "하", "", "늘", " b"]
    assert cut_up("하", align("하", ["\ufffd", "\ufffd"])) == ["", "하"]
    # as a stream decodes it: whole characters with their last token
    assert cut_up("하b", align("하b", ["", "하", "b"])) == ["", "하", "b"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=6), max_size=20))
def test_tokens_that_make_up_a_text_cover_it(pieces):
    text = "".join(pieces)
    spans = align(text, pieces)
    assert len(spans) == len(pieces)
    at = 0
    for low, high in spans:
        assert at <= low <= high <= len(text)
        at = high
    if not any("\ufffd" in piece for piece in pieces):
        assert "".join(cut_up(text, spans)) == text


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30), st.lists(st.text(max_size=6), max_size=20))
def test_any_tokens_leave_spans_in_order(text, pieces):
    at = 0
    for low, high in align(text, pieces):
        assert at <= low <= high <= len(text)
        at = high


def test_a_passage_begins_with_the_template():
    labels = ("<s>", "\n", "Hel", "lo", "<e>", "<s>", "\n", "Yes", ".")
    found = places((T, T, 0, 0, T, T, T, 1, 1))
    asked = passage("Hello", (), found[0], labels)
    assert (asked.text, asked.first, asked.own) == ("<s>\nHello", 0, 2)
    assert cut_up(asked.text, asked.spans) == ["<s>", "\n", "Hel", "lo"]
    answer = passage("Yes.", ("Yes", ".", ""), found[1], labels)
    assert (answer.text, answer.first, answer.own) == ("<e><s>\nYes.", 4, 3)
    assert cut_up(answer.text, answer.spans) == ["<e>", "<s>", "\n", "Yes", ".", ""]


@pytest.mark.parametrize(
    ("between", "ends"),
    [
        (("<|im_end|>", "\n", "<|im_start|>", "assistant", "\n"), 2),
        (("<|eot_id|>", "<|start_header_id|>", "user", "<|end_header_id|>", "\n\n"), 1),
        (("<end_of_turn>", "\n", "<start_of_turn>", "model", "\n"), 2),
        (("</s>", "[INST]"), 1),
        (("[/INST]",), 1),
        (("<|assistant|>", "\n"), 0),
        (("\n\n", "Assistant", ":"), 0),
        ((), 0),
    ],
)
def test_the_template_ends_a_message_with_tokens_that_say_so(between, ends):
    assert ending(between) == ends


def test_what_ends_a_message_belongs_to_it():
    labels = ("<s>", "\n", "Hel", "lo", "<|im_end|>", "\n", "<|im_start|>", "Yes", ".")
    found = places((T, T, 0, 0, T, T, T, 1, 1), labels)
    asked = passage("Hello", (), found[0], labels)
    assert cut_up(asked.text, asked.spans) == ["<s>", "\n", "Hel", "lo", "<|im_end|>", "\n"]
    assert (asked.first, asked.own, asked.tail) == (0, 2, 2)
    answer = passage("Yes.", ("Yes", ".", ""), found[1], labels)
    assert cut_up(answer.text, answer.spans) == ["<|im_start|>", "Yes", ".", ""]
    assert (answer.first, answer.own, answer.tail) == (6, 1, 0)


def test_a_passage_that_is_not_in_the_cache_has_no_positions():
    found = passage("Yes.", ("Yes", "."), None, ())
    assert (found.text, found.first, found.own) == ("Yes.", None, 0)
    assert cut_up(found.text, found.spans) == ["Yes", "."]


def test_a_choice_fits_another_model():
    small = replace(MODEL, layers=2, heads=4)
    assert XRay(layer=29, head=8, at=3, fitted=True).fit(small) == XRay(
        fitted=True, layer=1, head=3
    )
    assert XRay().fit(MODEL).layer == 15
