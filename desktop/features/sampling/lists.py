"""Lists among the sampling options, read from JSON, and from lines that a person types."""

from __future__ import annotations

from typing import Any

from llm_lite.core.messages.sampling_options import (
    LONGEST_TEXT,
    MOST_BIAS,
    MOST_BIASES,
    MOST_TEXTS,
    OPTIONS,
)
from llm_lite.core.plain_text import lines
from llm_lite.desktop.language.translate import tr

Biases = tuple[tuple[int, float], ...]
_ESCAPES = (("\\n", "\n"), ("\\t", "\t"))


_TEXTS = tuple(name for name, row in OPTIONS.items() if row.kind == "texts")
FIELDS = tuple(name for name, row in OPTIONS.items() if row.kind in ("texts", "biases"))


def read_lists(data: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the lists of `data` that can be used, and what was expected of each of the others."""
    good: dict[str, Any] = {}
    wrong: list[str] = []
    for name in FIELDS:
        if name not in data:
            continue
        value = _texts(data[name]) if name in _TEXTS else _biases(data[name])
        if value is not None:
            good[name] = value
        elif name in _TEXTS:
            limits = f"at most {MOST_TEXTS} texts of 1 to {LONGEST_TEXT} characters"
            wrong.append(f"{name}: expected a list of {limits}")
        else:
            pairs = f"at most {MOST_BIASES} pairs of a token id and a number up to {MOST_BIAS:g}"
            wrong.append(f"{name}: expected a list of {pairs}")
    return good, wrong


def read_chosen(value: Any, problems: list[str]) -> tuple[str, ...]:
    """Return names of sampling options. If others are among them, add a problem."""
    names = value if isinstance(value, list) else [value]
    good = tuple(name for name in names if isinstance(name, str) and name in OPTIONS)
    if len(good) < len(names):
        problems.append("settings: sampling_chosen: expected a list of names of sampling options.")
    return good


def _texts(value: Any) -> tuple[str, ...] | None:
    if not isinstance(value, list) or len(value) > MOST_TEXTS:
        return None
    if not all(isinstance(text, str) and 0 < len(text) <= LONGEST_TEXT for text in value):
        return None
    texts = tuple(lines(text) for text in value)
    return texts if all(texts) else None


def _biases(value: Any) -> tuple[tuple[int, float], ...] | None:
    if not isinstance(value, list) or len(value) > MOST_BIASES:
        return None
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        return None
    if not all(type(token) is int and type(bias) in (int, float) for token, bias in value):
        return None
    if not all(0 <= t < 1 << 31 and -MOST_BIAS <= bias <= MOST_BIAS for t, bias in value):
        return None
    return tuple((token, float(bias)) for token, bias in value)


def stop_lines(stop: tuple[str, ...]) -> str:
    return "\n".join(_escaped(text) for text in stop)


def stops_of(lines: str) -> tuple[tuple[str, ...], str]:
    """Return the stop strings, one a line, and a sentence if some are left out."""
    found = [_plain(line) for line in lines.split("\n") if line]
    usable = tuple(text for text in found[:MOST_TEXTS] if len(text) <= LONGEST_TEXT)
    if len(usable) < len(found):
        words = tr("At most {n} stop strings of {length} characters count.")
        return usable, words.format(n=MOST_TEXTS, length=LONGEST_TEXT)
    return usable, ""


def bias_lines(biases: Biases) -> str:
    return "\n".join(f"{token}={value:g}" for token, value in biases)


def biases_of(lines: str) -> tuple[Biases, str]:
    """Return the biases, one a line, and a sentence that names the first line that is none."""
    found: dict[int, float] = {}
    problem = ""
    for number, line in enumerate(lines.split("\n"), 1):
        if not line.strip():
            continue
        pair = _bias(line.strip())
        if pair is None or len(found) == MOST_BIASES:
            words = tr("Line {n}: expected a token id, = and a number from -{most:g} to {most:g}.")
            problem = problem or words.format(n=number, most=MOST_BIAS)
        else:
            found[pair[0]] = pair[1]
    return tuple(found.items()), problem


def _bias(line: str) -> tuple[int, float] | None:
    token, _, value = line.partition("=")
    token = token.strip()
    if not token.isascii() or not token.isdecimal() or len(token) > 9:
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return (int(token), number) if -MOST_BIAS <= number <= MOST_BIAS else None


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\\\")
    for typed, meant in _ESCAPES:
        text = text.replace(meant, typed)
    return text


def _plain(line: str) -> str:
    """Undo `_escaped`; a backslash before any other character stands for itself."""
    parts = line.split("\\\\")
    for typed, meant in _ESCAPES:
        parts = [part.replace(typed, meant) for part in parts]
    return "\\".join(parts)
