"""Which values a setting may have: names of choices, ranges of numbers, lengths of texts."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from msgspec import Meta, structs

from llm_lite.core.checked import CheckError, convert
from llm_lite.core.files.json_text import found
from llm_lite.core.messages import (
    SPECULATES,
)
from llm_lite.core.messages.sampling_options import LONGEST_GRAMMAR, NUMBERS, OPTIONS
from llm_lite.core.plain_text import lines
from llm_lite.desktop.attention.colors import NAMES
from llm_lite.desktop.language.catalogues import SYSTEM, languages

CHOICES: dict[str, tuple[str, ...]] = {  # names that are known when the program runs
    "language": (SYSTEM, *languages()),
    "colors": NAMES,
    "speculate": tuple(one for one in SPECULATES if one != "slice"),  # which few models have
}
MOST_WHOLE = (1 << 63) - 1  # of the limits that msgspec checks
LONGEST_PATH = 4096  # characters; what Linux takes
LONGEST = {name: LONGEST_GRAMMAR for name, row in OPTIONS.items() if row.kind == "text"}
RANGES = {name: (row.low, row.high) for name, row in NUMBERS.items()}


def values_of(data: dict[str, Any], base: Any, problems: list[str], prefix: str) -> dict[str, Any]:
    """Return the plain values (text, number, switch) of `data` that fit the record `base`, and add
    a sentence to `problems` for each that does not."""
    good = {}
    record: Any = type(base)
    for name, kind in _kinds(record).items():
        old = getattr(base, name)
        plain = old is None or isinstance(old, bool | int | float | str)
        if name not in data or not plain:
            continue
        given = NUMBERS[name].meant(data[name]) if name in NUMBERS else data[name]
        try:
            value = convert(given, kind, prefix + name)
            _check_range(name, value, prefix + name)
        except CheckError as error:
            problems.append(f"settings: {error}; {found(old)} is used instead.")
            continue
        good[name] = lines(value) if isinstance(value, str) else value
    return good


def _check_range(name: str, value: Any, at: str) -> None:
    """Raise CheckError for a number out of its range. A type would not do: msgspec bounds whole
    numbers by 64 bits with a sign, and a seed has one bit more."""
    if name not in RANGES or value is None:
        return
    low, high = RANGES[name]
    if not low <= value <= high:  # NaN is in none
        raise CheckError(at, f"expected a number from {low} to {high}, found {found(value)}")


@cache
def _kinds(record: Any) -> dict[str, Any]:
    """Return the types of a record's fields: with the names that are known here, and no text longer
    than a path may be."""
    kinds: dict[str, Any] = {}
    for field in structs.fields(record):
        kind = field.type
        if field.name in CHOICES:
            kind = Literal[CHOICES[field.name]]
        elif field.name in RANGES:
            low, high = RANGES[field.name]
            limits = Meta(ge=low, le=min(high, MOST_WHOLE))
            kind = Annotated[int, limits] | None if kind == int | None else Annotated[kind, limits]
        elif kind is str:
            kind = Annotated[str, Meta(max_length=LONGEST.get(field.name, LONGEST_PATH))]
        kinds[field.name] = kind
    return kinds
