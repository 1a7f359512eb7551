"""Sentences on what would fit where a model does not."""

from __future__ import annotations

from collections.abc import Sequence

from llm_lite.core.messages import MODES, Mode
from llm_lite.core.messages.library import Fit

# The most exact first; fp32 holds the same numbers as fp16 of most files at twice the size.
BY_QUALITY: tuple[Mode, ...] = ("as-stored", "fp16", "fp32", "int8", "int4")
LEAST_CONTEXT = 512  # tokens: with fewer hardly a question and its answer fit
assert set(BY_QUALITY) == set(MODES)


def total(fit: Fit) -> int:
    return sum(part.host + part.device for part in fit.parts)


def what_is_missing(fit: Fit, where: str) -> str:
    """Return the first half of the error message: what exceeds the memory."""
    host, device = (sum(getattr(part, at) for part in fit.parts) for at in ("host", "device"))
    begin = f"{fit.mode} weights and a context of {fit.context} tokens need"
    if fit.device_free is not None and device > fit.device_free:
        return f"{begin} {amount(device)} on {where}, which has {amount(fit.device_free)}"
    free = amount(fit.host_free or 0)
    return f"{begin} {amount(host)}, but {where} has {free} of memory to spare"


def instead_of(others: Sequence[Fit], asked: Fit, slice_title: str = "") -> str:
    """Return the second half of the error message: what would fit instead."""
    found = [_difference(other, asked) for other in others]
    if slice_title:
        found.append(f"its slice {slice_title}")
    if not found:
        return "nothing smaller of this model fits; close other programs, or take a smaller model"
    return " or ".join(found) + (" fits" if len(found) == 1 else " would fit")


def _difference(other: Fit, asked: Fit) -> str:
    size = amount(total(other))
    if other.mode == asked.mode:
        return f"a context of {other.context} tokens ({size})"
    if other.context == asked.context:
        return f"mode {other.mode} ({size})"
    return f"mode {other.mode} with a context of {other.context} tokens ({size})"


def amount(size: int) -> str:
    """Return an amount of memory such as "812 MiB" or "1.4 GiB"."""
    return f"{size / 2**30:.1f} GiB" if size >= 1 << 30 else f"{size / 2**20:.0f} MiB"
