"""Names of local models: short, lower case, unique, the same each time they are listed.

A model is called as its file or its program calls it. Of two that are called alike the first keeps
the plain name, in the order of ORIGINS; the other has its publisher or its place behind an @.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import get_args

from llm_lite.core.hub.local.found import Found
from llm_lite.core.messages.library import Origin
from llm_lite.core.plain_text import one_line

ORIGINS: tuple[Origin, ...] = get_args(Origin)
_LONGEST = 80  # characters
_IDENTITY = re.compile(r"-[0-9a-f]{16}(?=(-(int4|int8|fp16|fp32))?$)")  # of a variant or slice


def in_order(models: Sequence[Found]) -> list[Found]:
    """As they are named and listed."""
    return sorted(
        models, key=lambda one: (ORIGINS.index(one.origin), _plain(one.label), str(one.path))
    )


def names(models: Sequence[Found]) -> list[str]:
    """Of models in order."""
    taken: dict[str, Found] = {}
    for model in models:
        name = next(name for name in _candidates(model, taken) if name not in taken)
        taken[name] = model
    return list(taken)


def _candidates(model: Found, taken: dict[str, Found]) -> Iterator[str]:
    plain = _plain(model.label)
    owner = _plain(model.repo.partition("/")[0]) if "/" in model.repo else ""
    first = taken.get(plain)
    same_place = first is not None and first.origin == model.origin
    marks = [owner, model.origin] if same_place and owner else [model.origin, owner]
    yield plain
    yield from (f"{plain}@{mark}" for mark in marks if mark)
    digest = _digest(model.path)
    yield f"{plain}@{digest}"
    yield from (f"{plain}@{digest}-{number}" for number in count(2))


def _plain(label: str) -> str:
    label = _IDENTITY.sub("", label)
    text = re.sub(r"[^\w.:+-]+", "-", one_line(label)).lower()
    text = re.sub(r"-{2,}", "-", text).strip("-.:")
    return text[:_LONGEST].strip("-.:") or "model"


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:8]
