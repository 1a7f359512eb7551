"""Notes at the fields of records, and what a record is as JSON and as text."""

from pathlib import Path
from types import MappingProxyType

import pytest
from msgspec import Struct, to_builtins

from llm_lite.core.records import FieldNotesMeta, FieldWithNotes, asdict, replace, repr_without


class Key(Struct, frozen=True):
    """A record with a secret, and with another record in it."""

    name: str
    secret: str = ""
    inner: "Key | None" = None
    __repr__ = repr_without("secret")


class Base(Struct, metaclass=FieldNotesMeta, frozen=True, kw_only=True):
    """A record with notes: one required field, one with a default, one made each time."""

    first: int = FieldWithNotes({"row": "row of first"})
    second: int = FieldWithNotes({"row": "row of second"}, default=2)
    third: dict[str, int] = FieldWithNotes({"row": "row of third"}, default_factory=dict)
    plain: str = ""


class Heir(Base, frozen=True, kw_only=True):
    """Its second field has another note, its third none any more."""

    second: int = FieldWithNotes({"row": "another row"})
    third: dict[str, int] = {}
    fourth: int = FieldWithNotes({"row": "row of fourth"}, default=4)


def test_a_secret_stands_in_no_text():
    key = Key("a", "hush", Key("b", "hush"))
    assert repr(key) == "Key(name='a', inner=Key(name='b', inner=None))"
    assert key.secret == "hush"


def test_notes_are_known_by_field_in_the_order_of_the_fields():
    assert list(Base.notes.items()) == [
        ("first", {"row": "row of first"}),
        ("second", {"row": "row of second"}),
        ("third", {"row": "row of third"}),
    ]
    assert list(Heir.notes.items()) == [
        ("first", {"row": "row of first"}),
        ("second", {"row": "another row"}),
        ("fourth", {"row": "row of fourth"}),
    ]


def test_a_field_with_a_note_keeps_its_default_or_is_required():
    assert Base(first=1) == Base(first=1, second=2, third={}, plain="")
    assert Base(first=1).third is not Base(first=1).third
    assert replace(Heir(first=1, second=5), first=3) == Heir(first=3, second=5, fourth=4)
    with pytest.raises(TypeError, match="first"):
        Base()
    with pytest.raises(TypeError, match="second"):
        Heir(first=1)


def test_a_record_as_json():
    class Whole(Struct, frozen=True):
        key: Key
        path: Path
        pairs: tuple[tuple[int, float], ...]
        known: MappingProxyType[str, Key]

    whole = Whole(Key("a"), Path("/b"), ((1, 0.5),), MappingProxyType({"c": Key("d")}))
    plain = {"name": "a", "secret": "", "inner": None}
    assert asdict(whole) == {
        "key": plain,
        "path": "/b",
        "pairs": ((1, 0.5),),
        "known": {"c": {**plain, "name": "d"}},
    }
    with pytest.raises(TypeError, match="object is nothing that JSON has"):
        asdict(replace(whole, path=object()))
    assert asdict(whole.key) == to_builtins(whole.key)
