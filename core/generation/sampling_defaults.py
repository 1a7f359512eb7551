"""Default sampling options: those in the model's own files, or else those that the card of its
family advises."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from llm_lite.core.files.json_text import read_object
from llm_lite.core.messages import SamplingDefault
from llm_lite.core.messages.sampling_options import OPTIONS, names_in

MEASURED = "measured against repetition"
GENERATION_CONFIG = "generation_config.json"
_GGUF = "general.sampling."
_Named = Iterable[tuple[str, str, Any]]  # as the file calls it, our name, the value


class Family(Struct, frozen=True):
    """Models whose name `pattern` finds, and what `source` advises for them."""

    pattern: str
    source: str
    values: Mapping[str, float]
    measured: Mapping[str, float] = field(default_factory=dict)  # by `tools.cross.everyday`


def _card(family: str) -> str:
    return f"the model card of {family}"


def _authors(family: str) -> str:
    return f"the advice of {family}'s authors"


FAMILIES: tuple[Family, ...] = (  # the first one whose pattern is found
    # Of 48 everyday answers, long stories among them, 11 repeat themselves with a window of 64
    # tokens, 4 with one of 256, which is more than a paragraph.
    Family(
        r"smollm2.*135m.*instruct",
        _card("SmolLM2-Instruct"),
        {"temperature": 0.2, "top_p": 0.9},
        {"repetition_penalty": 1.1, "penalty_window": 256},
    ),
    Family(
        r"smollm2.*instruct",
        _card("SmolLM2-Instruct"),
        {"temperature": 0.2, "top_p": 0.9},
    ),
    Family(r"smollm3", _card("SmolLM3"), {"temperature": 0.6, "top_p": 0.95}),
    Family(
        r"qwen3(?!\.|.*coder)",
        _card("Qwen3"),
        {"temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.0},
    ),
    Family(
        r"llama.?3.*instruct",
        _card("Llama 3 Instruct"),
        {"temperature": 0.6, "top_p": 0.9},
    ),
    Family(
        r"gemma.?3.*\bit\b",
        _authors("Gemma 3"),
        {"temperature": 1.0, "top_k": 64, "top_p": 0.95, "min_p": 0.0},
    ),
)


def sampling_defaults(
    path: Path, metadata: Mapping[str, Any], name: str
) -> tuple[tuple[SamplingDefault, ...], list[str]]:
    """Return the defaults of a model that people call `name`, and a sentence for each invalid value
    in its files. FileError if generation_config.json cannot be read."""
    problems: list[str] = []
    in_files = _of_config(path, problems) + _of_metadata(metadata, path, problems)
    by_name = {default.name: default for default in reversed(in_files)}  # the first of a name stays
    if not by_name:
        return _of_family(name), problems
    return tuple(by_name.values()), problems


def _of_config(path: Path, problems: list[str]) -> list[SamplingDefault]:
    file = path / GENERATION_CONFIG
    if not path.is_dir() or not file.exists():
        return []
    values = read_object(file)
    keys = names_in("generation_config").items()
    named = ((key, name, values[key]) for name, key in keys if values.get(key) is not None)
    return _checked(named, GENERATION_CONFIG, file, problems)


def _of_metadata(
    metadata: Mapping[str, Any], path: Path, problems: list[str]
) -> list[SamplingDefault]:
    named = []
    for name, key in names_in("gguf").items():
        switch = OPTIONS[name].switches.get("gguf")
        is_on = switch is None or metadata.get(f"{_GGUF}{switch[0]}") == switch[1]
        if is_on and f"{_GGUF}{key}" in metadata:
            named.append((f"{_GGUF}{key}", name, metadata[f"{_GGUF}{key}"]))
    return _checked(named, "the file's general.sampling", path, problems)


def _of_family(name: str) -> tuple[SamplingDefault, ...]:
    """Return the defaults of a family; () for a base model, whose card advises nothing."""
    lower = name.lower()
    family = next((f for f in FAMILIES if re.search(f.pattern, lower)), None)
    if family is None or re.search(r"(?<![a-z])base(?![a-z])", lower):
        return ()
    return (
        *(SamplingDefault(n, value, family.source) for n, value in family.values.items()),
        *(SamplingDefault(n, value, MEASURED) for n, value in family.measured.items()),
    )


def _checked(named: _Named, source: str, file: Path, problems: list[str]) -> list[SamplingDefault]:
    """Return values within the sampler's ranges, those of 32 bits without digits that they do not
    have."""
    defaults = []
    for key, name, value in named:
        row = OPTIONS[name]
        value = row.meant(value)
        if value is None:
            continue
        if not _is_number(value) or not row.low <= value <= row.high:
            problems.append(
                f"{file}: {key}: expected {row.low} to {row.high}, found {repr(value)[:40]}; "
                "the program's own default is used"
            )
            continue
        number = int(value) if row.kind == "whole" else float(f"{float(value):.6g}")
        defaults.append(SamplingDefault(name, number, source))
    return defaults


def _is_number(value: object) -> bool:
    return type(value) is int or (isinstance(value, float) and math.isfinite(value))
