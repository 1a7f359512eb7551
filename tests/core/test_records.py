"""Dataclasses whose methods are compiled late are what the standard library's are."""

import copy
import dataclasses
import inspect
import pickle

import pytest

from llm_lite.core import records

OPTIONS = (
    {"frozen": True, "slots": True},
    {"frozen": True},
    {"slots": True},
    {},
    {"frozen": True, "kw_only": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "repr": False},
)


def point(dataclass, options):
    class Point:
        x: int
        y: float = 0.5
        tags: list = dataclasses.field(default_factory=list)
        seen: int = dataclasses.field(default=0, compare=False, repr=False)
        made: dict = dataclasses.field(init=False, default_factory=dict, hash=False)
        named: str = dataclasses.field(default="n", kw_only=True)

    Point.__qualname__ = "Point"
    return dataclass(**options)(Point)


@pytest.fixture(params=OPTIONS, ids=str)
def both(request):
    return point(records.dataclass, request.param), point(dataclasses.dataclass, request.param)


def tried(work, *given, **named):
    try:
        return work(*given, **named)
    except (TypeError, AttributeError) as error:
        return type(error)


@pytest.mark.parametrize(
    ("given", "named"), [((1,), {}), ((1, 2.0, ["t"], 3), {"named": "m"}), ((), {"x": 2})], ids=str
)
def test_it_makes_and_shows_the_same(both, given, named):
    mine, other = (tried(cls, *given, **named) for cls in both)
    if isinstance(other, type):  # refused: fields are by name alone
        assert mine is other
        return
    assert dataclasses.asdict(mine) == dataclasses.asdict(other)
    assert repr(mine) == repr(other) or "object at" in repr(other)


@pytest.mark.parametrize("other", [{}, {"seen": 4}, {"y": 2.0}, {"tags": (1,)}], ids=str)
def test_it_compares_and_hashes_as_there(both, other):
    found = []
    for cls in both:
        one, two = cls(x=1, tags=()), cls(**{"x": 1, "tags": (), **other})
        hashes = tried(hash, one), tried(hash, two)
        alike = isinstance(hashes[0], int) and cls.__eq__ is not object.__eq__
        found.append((one == two, one == 1, type(hashes[0]), alike and hashes[0] == hashes[1]))
    assert found[0] == found[1]


def test_it_refuses_what_is_missing_or_unknown(both):
    for cls in both:
        for wrong in ({}, {"x": 1, "z": 2}, {"x": 1, "made": {}}):
            with pytest.raises(TypeError):
                cls(**wrong)


def test_attributes_are_set_as_there(both):
    set_, delete = (
        [tried(do, cls(x=1), "x", *rest) for cls in both]
        for do, rest in ((setattr, (3,)), (delattr, ()))
    )
    assert set_[0] is set_[1]
    assert delete[0] is delete[1]


def test_a_changed_copy_and_its_fields(both):
    ours, theirs = both
    changed = [dataclasses.asdict(tried_copy(cls)) for cls in both]
    assert changed[0] == changed[1]
    assert [f.name for f in dataclasses.fields(ours)] == [
        f.name for f in dataclasses.fields(theirs)
    ]
    assert ours.__match_args__ == theirs.__match_args__
    assert hasattr(ours, "__slots__") == hasattr(theirs, "__slots__")
    ours(x=1)
    assert str(inspect.signature(ours)).count(",") == str(inspect.signature(theirs)).count(",")


def tried_copy(cls):
    return dataclasses.replace(copy.copy(cls(x=1, tags=["t"])), y=4.0)


@records.dataclass(frozen=True, slots=True)
class Kept:
    """Pickles find it by its name."""

    a: int
    b: tuple[int, ...] = ()


@records.dataclass(frozen=True, slots=True)
class Heir(Kept):
    c: int = 1

    def __post_init__(self):
        if self.c < 0:
            raise ValueError("c")

    def __eq__(self, other):
        return isinstance(other, Kept) and self.a == other.a


def test_pickles_and_copies_are_equal():
    for one in (Kept(1, (2,)), Heir(1, (), 3)):
        for same in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
            assert same == one
            assert same is not one
    assert hash(Kept(1)) == hash(Kept(1)) != hash(Kept(2))


def test_an_heir_and_its_own_methods():
    assert Heir(1, c=2) == Kept(1)
    assert Kept(1) == Kept(1)
    assert Kept(1) != Heir(1, c=2) or Heir.__eq__ is not Kept.__eq__
    assert hash(Heir(1)) == hash(Heir(1))
    assert repr(Heir(1)) == "Heir(a=1, b=(), c=1)"
    with pytest.raises(ValueError, match="c"):
        Heir(1, c=-1)
    assert Kept.__doc__ == "Pickles find it by its name."


def test_nothing_is_compiled_before_it_is_used():
    made = records.dataclass(frozen=True)(type("Late", (), {"__annotations__": {"a": int}}))
    assert made.__init__.stands_in
    assert made(1).a == 1
    assert not hasattr(made.__init__, "stands_in")
    assert made(2) == made(2)


@dataclasses.dataclass(frozen=True, slots=True)
class There:
    a: int


def test_heirs_of_the_standard_librarys_are_as_there():
    @records.dataclass(frozen=True, slots=True)
    class Here(There):
        b: int = 2

    assert (Here(1).a, Here(1).b) == (1, 2)
    assert Here(1) == Here(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Here(1).a = 3
