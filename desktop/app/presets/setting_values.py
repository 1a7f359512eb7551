"""Which values a setting may have: names of choices, ranges of numbers, lengths of texts."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from msgspec import Meta, structs

from llm_lite.core.checked import CheckError, convert
from llm_lite.core.files.json_text import found
from llm_lite.core.messages import SPECULATES
from llm_lite.core.plain_text import lines
from llm_lite.desktop.attention.colors import NAMES
from llm_lite.desktop.language.catalogues import SYSTEM, languages

CHOICES: dict[str, tuple[str, ...]] = {  # names that are known when the program runs
    "language": (SYSTEM, *languages()),
    "colors": NAMES,
    "speculate": tuple(one for one in SPECULATES if one != "slice"),  # which few models have
}
LONGEST_PATH = 4096  # characters; what Linux takes
LONGEST = {  # characters
    "json_schema": 1 << 16,
    "grammar": 1 << 16,
}
RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 2.0),
    "top_k": (0, 1000),
    "top_p": (0.01, 1.0),
    "min_p": (0.0, 1.0),
    "typical_p": (0.0, 1.0),
    "xtc_probability": (0.0, 1.0),
    "xtc_threshold": (0.0, 1.0),
    "repetition_penalty": (1.0, 2.0),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
    "penalty_window": (0, 4096),
    "dry_multiplier": (0.0, 100.0),
    "dry_base": (1.0, 100.0),
    "dry_allowed_length": (1, 4096),
    "dry_window": (0, 1 << 20),
    "mirostat_tau": (0.0, 100.0),
    "mirostat_eta": (0.0, 1.0),
    "max_new_tokens": (1, 1 << 20),
    "max_thinking_tokens": (0, 1 << 20),
    "seed": (0, (1 << 63) - 1),
}


def values_of(data: dict[str, Any], base: Any, problems: list[str], prefix: str) -> dict[str, Any]:
    """The plain values (text, number, switch) of `data` that fit the record `base`."""
    good = {}
    for name, kind in _kinds(type(base)).items():
        old = getattr(base, name)
        plain = old is None or isinstance(old, bool | int | float | str)
        if name not in data or not plain:
            continue
        try:
            value = convert(data[name], kind, prefix + name)
        except CheckError as error:
            problems.append(f"settings: {error}; {found(old)} is used instead.")
            continue
        good[name] = lines(value) if isinstance(value, str) else value
    return good


@cache
def _kinds(record: Any) -> dict[str, Any]:
    """Return the types of a record's fields: with the limits that are declared here, and no text
    longer than a path may be."""
    kinds: dict[str, Any] = {}
    for field in structs.fields(record):
        kind = field.type
        if field.name in CHOICES:
            kind = Literal[CHOICES[field.name]]
        elif field.name in RANGES:
            low, high = RANGES[field.name]
            limits = Meta(ge=low, le=high)
            kind = Annotated[int, limits] | None if kind == int | None else Annotated[kind, limits]
        elif kind is str:
            kind = Annotated[str, Meta(max_length=LONGEST.get(field.name, LONGEST_PATH))]
        kinds[field.name] = kind
    return kinds
