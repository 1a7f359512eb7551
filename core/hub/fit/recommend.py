"""The recommendation of a file or mode for this machine, and what would fit in its place."""

from __future__ import annotations

from collections.abc import Sequence

from llm_lite.core.messages import MODES, Mode
from llm_lite.core.messages.library import Fit

# The most exact first; fp32 holds the same numbers as fp16 of most files at twice the size.
BY_QUALITY: tuple[Mode, ...] = ("as-stored", "fp16", "fp32", "int8", "int4")
LEAST_CONTEXT = 512  # tokens: with fewer hardly a question and its answer fit
assert set(BY_QUALITY) == set(MODES)


HEADROOM = 0.8  # of what is free: a browser may want some more meanwhile
USEFUL = 8.0  # tokens/s: about twice what a person reads


def recommend(fits: Sequence[Fit], quality: Sequence[float]) -> int | None:
    """Return the index of the best fit that is fast enough; None if nothing fits.

    A fit has headroom if it takes at most four fifths of the free memory, and is fast enough if
    its speed, as far as memory decides it, is at least 8 tokens/s. Among those with both, the one
    of the highest `quality` is chosen (for files of one model: their sizes, as more bytes a weight
    lose less), among equal ones the smaller. If none is fast enough, or the speed is not known, it
    is the smallest with headroom; if none has headroom, the smallest that fits at all.
    """
    fitting = [i for i, fit in enumerate(fits) if fit.fits]
    roomy = [i for i in fitting if _has_headroom(fits[i])]
    useful = [i for i in roomy if (fits[i].speed or 0.0) >= USEFUL]
    if useful:
        return max(useful, key=lambda i: (quality[i], -total(fits[i])))
    return min(roomy or fitting, key=lambda i: total(fits[i]), default=None)


def recommend_mode(fits: Sequence[Fit]) -> int | None:
    """Return the index of the best mode of one model, as `recommend` does: as-stored is as exact as
    the file is, so that only fewer bits lose something. One that rounds weights twice is chosen
    where no other fits."""
    once = [fit for fit in fits if fit.fits and not fit.rounded_again] or fits
    best = recommend(once, [-BY_QUALITY.index(fit.mode) for fit in once])
    return None if best is None else list(fits).index(once[best])


def _has_headroom(fit: Fit) -> bool:
    pairs = ((fit.host_free, "host"), (fit.device_free, "device"))
    return all(
        free is None or sum(getattr(part, at) for part in fit.parts) <= HEADROOM * free
        for free, at in pairs
    )


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
