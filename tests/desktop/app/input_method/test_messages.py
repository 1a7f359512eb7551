"""Signals of an input context, as they should be and as they should not."""

import random

import pytest

from llm_lite.desktop.app.input_method.messages import (
    LONGEST_COMPOSITION,
    MOST_SPANS,
    NOTHING,
    Committed,
    Composed,
    Composition,
    Forwarded,
    ShowsComposition,
    Span,
    read_signal,
)


def ibus_text(text, *attributes):
    spans = [("(sa{sv}uuuu)", ("IBusAttribute", {}, *one)) for one in attributes]
    listed = ("(sa{sv}av)", ("IBusAttrList", {}, spans))
    return ("(sa{sv}sv)", ("IBusText", {}, text, listed))


def test_a_commit():
    assert read_signal("CommitText", (ibus_text("안녕"),)) == Committed("안녕")
    assert read_signal("CommitText", (ibus_text(""),)) is None


def test_a_composition_with_its_clauses():
    text = ibus_text("きょうは", (1, 1, 0, 4), (3, 0xFF, 0, 3), (1, 2, 3, 4))
    told = read_signal("UpdatePreeditTextWithMode", (text, 3, True, 1))
    spans = (Span(0, 3), Span(3, 4))
    assert told == Composed(Composition("きょうは", 3, spans, kept=True))
    told = read_signal("UpdatePreeditText", (ibus_text("ni"), 2, True))
    assert told == Composed(Composition("ni", 2, (), kept=False))
    assert read_signal("UpdatePreeditText", (ibus_text("ni"), 2, False)) == Composed(NOTHING)


def test_other_signals():
    assert read_signal("HidePreeditText", ()) == ShowsComposition(False)
    assert read_signal("ForwardKeyEvent", (97, 30, 4)) == Forwarded(97, 30, 4)
    assert read_signal("UpdateLookupTable", (1, 2)) is None


@pytest.mark.parametrize("span", [(9, 2), (0, 1 << 31), (5, 5), (1 << 31, 1 << 32), (0, 99)])
def test_clauses_outside_the_text_are_cut_or_left_out(span):
    text = ibus_text("abc", (3, 0, *span))
    told = read_signal("UpdatePreeditText", (text, 1 << 31, True))
    assert told.composition.caret == 3
    for one in told.composition.selected:
        assert 0 <= one.start < one.end <= 3


def test_lengths_are_limited_and_control_characters_left_out():
    many = [(3, 0, 0, 1)] * 5000
    text = ibus_text("x\x00\x1b" * 100_000, *many)
    told = read_signal("UpdatePreeditText", (text, 5, True)).composition
    assert told.text == "x" * LONGEST_COMPOSITION and len(told.selected) <= MOST_SPANS


def test_garbage_says_nothing():
    chance = random.Random(3)
    parts = [0, -1, 2**63, "", "IBusText", None, True, b"\xff", {}, [], (), ("s", "x"), ("v", ())]

    def garbage(depth):
        if depth == 0 or chance.random() < 0.3:
            return chance.choice(parts)
        return tuple(garbage(depth - 1) for _ in range(chance.randrange(5)))

    members = ("CommitText", "UpdatePreeditText", "UpdatePreeditTextWithMode")
    for _ in range(3000):
        body = (garbage(3), chance.choice(parts), chance.choice(parts), 1)
        told = read_signal(chance.choice(members), body[: chance.randrange(5)])
        assert told in (None, Composed(NOTHING), Composed(Composition("", 0, (), True)))
