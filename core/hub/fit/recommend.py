"""The recommendation of one of several files or modes for this machine."""

from __future__ import annotations

from collections.abc import Sequence

from llm_lite.core.hub.fit.instead import BY_QUALITY
from llm_lite.core.messages.library import Fit

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
        return max(useful, key=lambda i: (quality[i], -_total(fits[i])))
    return min(roomy or fitting, key=lambda i: _total(fits[i]), default=None)


def recommend_mode(fits: Sequence[Fit]) -> int | None:
    """Return the index of the best mode of one model, as `recommend` does: as-stored is as exact as
    the file is, so that only fewer bits lose something."""
    return recommend(fits, [-BY_QUALITY.index(fit.mode) for fit in fits])


def _has_headroom(fit: Fit) -> bool:
    pairs = ((fit.host_free, "host"), (fit.device_free, "device"))
    return all(
        free is None or sum(getattr(part, at) for part in fit.parts) <= HEADROOM * free
        for free, at in pairs
    )


def _total(fit: Fit) -> int:
    return sum(part.host + part.device for part in fit.parts)
