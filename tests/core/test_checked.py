"""What JSON from outside may be, and the sentence for what it may not."""

from pathlib import Path
from typing import Annotated, Literal

import pytest
from msgspec import Meta, Struct

from llm_lite.core.checked import CheckError, convert, convert_in_file, expected, fitting
from llm_lite.core.errors import FileError

Share = Annotated[float, Meta(ge=0, le=1)]


class Part(Struct, frozen=True, forbid_unknown_fields=True):
    state: Literal["waiting", "running"]
    count: Annotated[int, Meta(ge=0, le=9)] = 0
    share: Share | None = None
    name: Annotated[str, Meta(max_length=3)] = ""
    letters: tuple[str, ...] = ()
    pair: tuple[int, str] = (1, "")


class Even(Struct):
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError("must be even")


class Whole(Struct):
    """It keeps no fields that it does not know, and lets them pass."""

    parts: Annotated[tuple[Part, ...], Meta(min_length=1, max_length=2)] = (Part("waiting"),)
    named: dict[str, Part] = {}
    bounded: dict[Annotated[str, Meta(max_length=2)], int] = {}
    mode: Literal["a", "b", None] = None
    title: Annotated[str, Meta(max_length=4, extra={"expected": "a short text"})] = ""
    even: Even | None = None
    switch: bool = False
    numbers: set[int] = set()


def test_lists_become_tuples_and_what_is_missing_its_default():
    part = {"state": "running", "count": 3, "letters": ["x", "y"]}
    assert convert({"parts": [part], "later": 1}, Whole) == Whole(
        parts=(Part("running", 3, letters=("x", "y")),)
    )


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([], "expected an object, found a list of 0"),
        ({"parts": 3}, "parts: expected a list of 1 to 2 items, found 3"),
        ({"parts": []}, "parts: expected a list of 1 to 2 items, found a list of 0"),
        ({"parts": [3]}, "parts[0]: expected an object, found 3"),
        (
            {"parts": [{"state": "waiting"}, {}]},
            "parts[1].state: is missing: expected one of waiting, running",
        ),
        (
            {"parts": [{"state": "gone"}]},
            "parts[0].state: expected one of waiting, running, found 'gone'",
        ),
        (
            {"parts": [{"state": 1}]},
            "parts[0].state: expected one of waiting, running, found 1",
        ),
        ({"mode": "c"}, "mode: expected one of a, b or null, found 'c'"),
        ({"switch": 1}, "switch: expected true or false, found 1"),
        ({"title": "much longer"}, "title: expected a short text, found 11"),
        ({"title": None}, "title: expected a short text, found null"),
        ({"even": {"number": 3}}, "even: must be even"),
        ({"even": 3}, "even: expected an object or null, found 3"),
        ({"numbers": [3, "x"]}, "numbers[1]: expected a whole number, found 'x'"),
        ({"bounded": {"ab": 1, "abc": 2}}, "bounded: 'abc' cannot be a name in it"),
        ({"bounded": {"ab": "x"}}, "bounded.ab: expected a whole number, found 'x'"),
    ],
)
def test_the_sentence_names_field_expectation_and_what_was_found(value, sentence):
    with pytest.raises(CheckError) as caught:
        convert(value, Whole)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("count", 10, "count: expected a whole number from 0 to 9, found 10"),
        ("count", -1, "count: expected a whole number from 0 to 9, found -1"),
        ("count", True, "count: expected a whole number from 0 to 9, found true"),
        ("count", 2**70, f"count: expected a whole number from 0 to 9, found {2**70}"),
        ("share", 1.5, "share: expected a number from 0 to 1 or null, found 1.5"),
        ("share", float("nan"), "share: expected a number from 0 to 1 or null, found nan"),
        ("share", 10**400, f"share: expected a number from 0 to 1 or null, found {'1':0<40}"),
        ("name", "four", "name: expected a text of at most 3 characters, found 4"),
        ("letters", "x", "letters: expected a list, found 'x'"),
        ("letters", ["x", 3], "letters[1]: expected a text, found 3"),
        ("pair", [1], "pair: expected a list of 2, found a list of 1"),
        ("pair", [1, 2], "pair[1]: expected a text, found 2"),
        ("other", 1, "other: is not a known field"),
        ("a\nb", 1, "'a\\nb': is not a known field"),
    ],
)
@pytest.mark.parametrize("name", ["x", "with a blank"])
def test_members_of_any_names_are_named(field, value, sentence, name):
    good = {"state": "waiting"}
    shown = "x" if name == "x" else "'with a blank'"
    with pytest.raises(CheckError) as caught:
        convert({"named": {"good": good, name: {**good, field: value}}}, Whole)
    assert str(caught.value) == f"named.{shown}.{sentence}"
    assert caught.value.unknown == ("not a known" in sentence)


def test_it_says_where_the_value_stands_and_in_which_file():
    with pytest.raises(CheckError, match=r"^rows\[3\]\.count: "):
        convert({"state": "waiting", "count": "x"}, Part, "rows[3]")
    with pytest.raises(FileError) as caught:
        convert_in_file({"count": 3}, Part, Path("kept.json"), "rows[3]")
    assert caught.value.problem == "rows[3].state: is missing: expected one of waiting, running"


def test_fields_that_do_not_fit_are_left_out():
    kept = {"state": "gone", "count": 3, "share": 2, "letters": ["a"], "later": 1}
    assert fitting(kept, Part) == {"count": 3, "letters": ("a",)}


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Annotated[int, Meta(ge=1)], "a whole number of at least 1"),
        (Annotated[int, Meta(gt=1, lt=3)], "a whole number above 1 and below 3"),
        (Annotated[float, Meta(le=0.5)], "a number of at most 0.5"),
        (Annotated[str, Meta(min_length=1)], "a text of at least 1 character"),
        (Annotated[list[int], Meta(min_length=2, max_length=2)], "a list of 2 items"),
        (dict[str, int], "an object"),
        (Literal["one"], "one"),
        (None | int | str, "a whole number or a text or null"),
    ],
)
def test_a_type_in_words(kind, words):
    assert expected(kind) == words


class Named:
    """Reads itself, and says where within it something is wrong."""

    @classmethod
    def read(cls, kind, value):
        if value != "fine":
            raise CheckError("[1].name", "is not fine")
        return cls()


class Holder(Struct, forbid_unknown_fields=True):
    one: Named | None = None
    many: dict[str, Named] = {}
    either: Annotated[str, Meta(max_length=2)] | Annotated[list[int], Meta(max_length=1)] = ""


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"one": 1}, "one[1].name: is not fine"),
        ({"many": {"a": "fine", "b": 1}}, "many.b[1].name: is not fine"),
        ({"either": "long"}, "either: expected a text of at most 2 characters, found 4"),
        ({"either": [1, 2]}, "either: expected a list of at most 1 items, found a list of 2"),
        ({"a` - at `$.zz": 1}, "'a` - at `$.zz': is not a known field"),
        ({"a` - at `$.one": 1}, "'a` - at `$.one': is not a known field"),
        ({"one": None, "a` - at `$.one[...]": 1}, "'a` - at `$.one[...]': is not a known field"),
    ],
)
def test_types_that_read_themselves_and_names_that_look_like_places(value, sentence):
    with pytest.raises(CheckError) as wrong:
        convert(value, Holder, hook=Named.read)
    assert str(wrong.value) == sentence


def test_half_of_a_character_is_named():
    half = {"parts": [{"state": "\udcff"}]}
    with pytest.raises(
        CheckError, match=r"^kinds\.parts\[0\]\.state: is not valid Unicode: half of"
    ):
        convert(half, Whole, "kinds")
    assert fitting({"mode": "\udcff", "title": "ok"}, Whole) == {"title": "ok"}
