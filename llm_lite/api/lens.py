"""The logit lens: the next tokens that each layer would already predict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from llm_lite.api.token_text import visible
from llm_lite.core.errors import RequestError
from llm_lite.core.generation.sampling import likeliest

_TABLE = (
    "border-collapse: collapse; font-family: ui-sans-serif, system-ui, sans-serif; color: inherit; "
    "text-align: left; width: auto"
)
_CELL = "padding: 1px 12px 1px 6px; text-align: left; color: inherit"


class Lens:
    """The logit lens at a position of a text: every layer's residual through norm and head.

    `logits` float32 [layers, vocabulary]: of the next token, behind each layer; the last row is
    what the model itself says.
    """

    def __init__(
        self,
        logits: NDArray[np.float32],
        text_of: Callable[[int], str],
        ids_of: Callable[[str], Sequence[int]],
        after: str,
    ) -> None:
        self.logits = logits
        self._text_of, self._ids_of, self._after = text_of, ids_of, after

    def best(self, layer: int) -> list[tuple[str, float]]:
        """Return the five likeliest next tokens behind a layer, with their probabilities."""
        return [(self._text_of(token), p) for token, p in likeliest(self.logits[layer])]

    def probability(self, token: int | str) -> NDArray[np.float32]:
        """float32 [layers]: how likely each layer finds a token, given by its id or its text."""
        token = self._id_of(token)
        logits = self.logits.astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        found: NDArray[np.float32] = np.exp(logits[:, token]) / np.exp(logits).sum(axis=1)
        return found.astype(np.float32)

    def _id_of(self, token: int | str) -> int:
        """Return the id of a token. RequestError for an id outside the vocabulary, and for a text
        that is not one token."""
        if isinstance(token, str):
            ids = self._ids_of(token)
            if len(ids) != 1:
                raise RequestError(f"{token!r} is {len(ids)} tokens: expected a text of one")
            return ids[0]
        vocabulary = self.logits.shape[1]
        if not isinstance(token, int | np.integer) or not 0 <= token < vocabulary:
            raise RequestError(f"token: expected an id from 0 to {vocabulary - 1}, found {token!r}")
        return int(token)

    def __repr__(self) -> str:
        said = self.best(-1)[0][0]
        return f"<Lens of {len(self.logits)} layers after {self._after!r}: {said!r} at the end>"

    def _repr_html_(self) -> str:
        """Return an HTML table with a row for each layer, the last at the top; likelier tokens are
        drawn stronger."""
        head = f'<th style="{_CELL}">layer</th><th style="{_CELL}" colspan="5">likeliest next</th>'
        rows = [
            f'<tr style="background: none"><td style="{_CELL}">{n}</td>{self._cells(n)}</tr>'
            for n in reversed(range(len(self.logits)))
        ]
        return f'<table style="{_TABLE}"><tr>{head}</tr>{"".join(rows)}</table>'

    def _cells(self, layer: int) -> str:
        return "".join(
            f'<td title="{p:.2%}" style="{_CELL}; background: rgba(59, 130, 246, {0.6 * p:.2f}); '
            f'white-space: pre">{escape(visible(text))}</td>'
            for text, p in self.best(layer)
        )
