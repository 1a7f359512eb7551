"""Which values a setting may have: names of choices, ranges of numbers, lengths of texts."""

from __future__ import annotations

import math
from typing import Any, get_args

from llm_lite.core.files.json_text import found
from llm_lite.core.messages import (
    ACTIVATIONS,
    BACKENDS,
    DRAFT_LEARNINGS,
    KV_TYPES,
    MODES,
    OVERFLOWS,
    SPECULATES,
)
from llm_lite.core.messages.sampling_options import LONGEST_GRAMMAR, NUMBERS, OPTIONS
from llm_lite.core.plain_text import lines
from llm_lite.desktop.actions.program import MAX_FONT, MIN_FONT
from llm_lite.desktop.attention.colors import NAMES
from llm_lite.desktop.language.catalogues import SYSTEM, languages
from llm_lite.desktop.state.incoming import TYPED
from llm_lite.desktop.state.resuming.kept import ResumeMode
from llm_lite.desktop.state.serving.serving_state import MOST_PARALLEL, PORTS, Reach
from llm_lite.desktop.state.state import Appearance, ThemeName
from llm_lite.desktop.state.token_state import LookBy
from llm_lite.desktop.state.window.layouts import LayoutName, Panel

CHOICES: dict[str, tuple[str, ...]] = {
    "theme": get_args(ThemeName),
    "appearance": get_args(Appearance),
    "language": (SYSTEM, *languages()),
    "list": get_args(Panel),
    "inspector": get_args(Panel),
    "layout_name": get_args(LayoutName),
    "backend": BACKENDS,
    "mode": MODES,
    "activations": ACTIVATIONS,
    "speculate": tuple(one for one in SPECULATES if one != "slice"),  # which few models have
    "learned_drafts": DRAFT_LEARNINGS,
    "keys": KV_TYPES,
    "values": KV_TYPES,
    "overflow": OVERFLOWS,
    "resume": get_args(ResumeMode),
    "by": get_args(LookBy),
    "reach": get_args(Reach),
    "colors": NAMES,
}
LONGEST_PATH = 4096  # characters; what Linux takes
LONGEST = {  # characters
    "system_prompt": TYPED,
    "draft": TYPED,
    "draft_model": LONGEST_PATH,
    "layout": 1 << 18,
    **{name: LONGEST_GRAMMAR for name, row in OPTIONS.items() if row.kind == "text"},
}
RANGES: dict[str, tuple[float, float]] = {
    "font_size": (MIN_FONT, MAX_FONT),
    **{name: (row.low, row.high) for name, row in NUMBERS.items()},
    "threads": (0, 1024),
    "context": (0, 1 << 24),
    "query_budget": (0, 1 << 40),
    "pool_budget": (0, 1 << 40),
    "resume_budget": (0, 1 << 44),
    "device": (0, 255),
    "port": PORTS,
    "parallel": (1, MOST_PARALLEL),
    "high": (0.02, 1.0),
    "list_width": (0.0, 1000.0),
    "inspector_width": (0.0, 1000.0),
    "runs_width": (0.0, 1000.0),
    "upper_share": (0.0, 0.95),
    "x": (-32768, 32767),
    "y": (-32768, 32767),
    "width": (480, 16384),
    "height": (320, 16384),
}


def values_of(data: dict[str, Any], base: Any, problems: list[str], prefix: str) -> dict[str, Any]:
    """The plain values (text, number, switch) of `data` that fit the record `base`."""
    good = {}
    for name in base.__struct_fields__:
        old = getattr(base, name)
        plain = old is None or isinstance(old, bool | int | float | str)
        if name not in data or not plain:
            continue
        value = data[name]
        if not _fits(name, value, old):
            problems.append(
                f"settings: {prefix}{name} cannot be {found(value)}; {found(old)} is used instead."
            )
            continue
        if isinstance(old, str):
            value = lines(value)
        good[name] = float(value) if isinstance(old, float) else value
    return good


def _fits(name: str, value: Any, old: Any) -> bool:
    low, high = RANGES.get(name, (-math.inf, math.inf))
    if value is None:
        return old is None
    if isinstance(old, str):
        short = isinstance(value, str) and len(value) <= LONGEST.get(name, LONGEST_PATH)
        return short and value in CHOICES.get(name, (value,))
    if isinstance(old, bool):
        return isinstance(value, bool)
    if old is None or isinstance(old, int):  # the optional ones are all whole numbers
        return _is_int(value) and low <= value <= high
    # The range first: a whole number may be too large to be asked whether it is finite.
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and low <= value <= high and math.isfinite(value)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
