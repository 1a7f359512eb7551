"""Lists of the sampling options as lines that a person types, and back."""

from __future__ import annotations

from llm_lite.core.messages.sampling_options import (
    LONGEST_TEXT,
    MOST_BIAS,
    MOST_BIASES,
    MOST_TEXTS,
)
from llm_lite.desktop.language.translate import tr

Biases = tuple[tuple[int, float], ...]
_ESCAPES = (("\\n", "\n"), ("\\t", "\t"))


def stop_lines(stop: tuple[str, ...]) -> str:
    return "\n".join(_escaped(text) for text in stop)


def stops_of(lines: str) -> tuple[tuple[str, ...], str]:
    """The stop strings, one a line, and a sentence where some are left out."""
    found = [_plain(line) for line in lines.split("\n") if line]
    usable = tuple(text for text in found[:MOST_TEXTS] if len(text) <= LONGEST_TEXT)
    if len(usable) < len(found):
        words = tr("At most {n} stop strings of {length} characters count.")
        return usable, words.format(n=MOST_TEXTS, length=LONGEST_TEXT)
    return usable, ""


def bias_lines(biases: Biases) -> str:
    return "\n".join(f"{token}={value:g}" for token, value in biases)


def biases_of(lines: str) -> tuple[Biases, str]:
    """The biases, one a line, and a sentence that names the first line that is none."""
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
    """What a line stands for; a backslash before anything else is a backslash."""
    parts = line.split("\\\\")
    for typed, meant in _ESCAPES:
        parts = [part.replace(typed, meant) for part in parts]
    return "\\".join(parts)
