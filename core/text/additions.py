"""In the sandbox: what a tokenizer.json adds to a text, tokens around it and a space before it, as
the `tokenizers` library does it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from tokenizers import Encoding, Tokenizer, models
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

Named = list[tuple[str, int]]  # tokens with their ids
_TRIED = 64  # tokens of a vocabulary that has none for the usual texts


def around(library: Tokenizer) -> tuple[Named, Named]:
    """Return what stands before and behind a text."""
    for text in _texts(library):
        found = library.encode(text, add_special_tokens=True)
        inside = _places(found, 0)
        if inside:
            named = list(zip(found.tokens, found.ids, strict=True))
            return named[: inside[0]], named[inside[-1] + 1 :]
    found = library.encode("", add_special_tokens=True)
    return list(zip(found.tokens, found.ids, strict=True)), []


def around_pair(library: Tokenizer) -> list[list[int]]:
    """Return the ids before, between and behind two texts; [] if the file has none."""
    for text in _texts(library):
        found = library.encode(text, text, add_special_tokens=True)
        first, second = _places(found, 0), _places(found, 1)
        if first and second:
            ids = found.ids
            parts = [ids[: first[0]], ids[first[-1] + 1 : second[0]], ids[second[-1] + 1 :]]
            return parts if any(parts) else []
    return []


def leads(library: Tokenizer) -> str:
    """Return "once" if a space is put before a text and behind none of its control tokens,
    "always" if behind these too, and "" if nowhere."""
    steps = [*_steps(_read(library.normalizer)), *_steps(_read(library.pre_tokenizer))]
    first = [step.get("prepend_scheme") == "first" for step in steps if _leads(step)]
    if not first:
        return ""
    return "once" if all(first) else "always"


def without_lead(library: Tokenizer) -> tuple[Normalizer | None, PreTokenizer | None]:
    """Return the normalizer and the pre-tokenizer without the space that they put before a text."""
    parts = json.loads(Tokenizer(models.BPE()).to_str())
    parts["normalizer"] = _bare(_read(library.normalizer))
    parts["pre_tokenizer"] = _bare(_read(library.pre_tokenizer))
    made = Tokenizer.from_str(json.dumps(parts))
    return made.normalizer, made.pre_tokenizer


def _texts(library: Tokenizer) -> Iterator[str]:
    """Yield texts until one has tokens, whatever the vocabulary."""
    yield from ("a", "0")
    for token in islice(library.get_vocab(with_added_tokens=False), _TRIED):
        yield token.lstrip("▁Ġ").removesuffix("</w>")


def _places(found: Encoding, text: int) -> list[int]:
    return [place for place, number in enumerate(found.sequence_ids) if number == text]


def _read(part: Normalizer | PreTokenizer | None) -> dict[str, Any] | None:
    """Return a part as a tokenizer.json has it."""
    return None if part is None else dict(json.loads(part.__getstate__()))


def _steps(part: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """Yield a normalizer or pre-tokenizer and its parts."""
    if part is None:
        return
    yield part
    for inner in (*part.get("normalizers", ()), *part.get("pretokenizers", ())):
        yield from _steps(inner)


def _leads(step: Mapping[str, Any]) -> bool:
    kind = step["type"]
    if kind == "Metaspace":
        return bool(step.get("prepend_scheme") != "never")
    return bool(kind == "Prepend" or (kind == "ByteLevel" and step.get("add_prefix_space")))


def _bare(part: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the part of a tokenizer.json without the steps that put a space before a text."""
    if part is None or part["type"] == "Prepend":
        return None
    made = dict(part)
    for key in ("normalizers", "pretokenizers"):
        if key in made:
            made[key] = [inner for step in made[key] if (inner := _bare(step)) is not None]
    if part["type"] == "Metaspace":
        made |= {"prepend_scheme": "never"}
    elif part["type"] == "ByteLevel":
        made |= {"add_prefix_space": False}
    return made
