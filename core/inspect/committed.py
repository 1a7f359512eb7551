"""The positions that hold their keys and their queries between two steps; read from any thread."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from llm_lite.core.records import replace


class Committed(Struct, frozen=True):
    """The contents of the cache and the query rings between two steps."""

    version: int  # grows with every change
    length: int  # positions in the cache
    rows: range  # positions whose queries are kept
    epoch: int = 0  # grows when equal tokens may have other keys than before
    oldest: tuple[int, ...] = ()  # by owner of a cache, the first position whose key it has


class CommittedRows:
    """Keeps `state` true while a session writes; rings have `ring_rows` rows, 0 where none are."""

    def __init__(self, ring_rows: int) -> None:
        self._ring_rows = ring_rows
        self.state = Committed(0, 0, range(0))  # replaced, never changed: other threads read it

    @property
    def first(self) -> int:
        """Return the first position whose query is kept."""
        return self.state.rows.start

    def first_after(self, length: int) -> int:
        """Return the first position whose query is kept once `length` positions were written."""
        return max(self.first, length - self._ring_rows)

    def commit(self, length: int, first: int, oldest: Sequence[int]) -> None:
        """Record that the cache holds `length` positions, with queries kept from `first` on."""
        rows = range(first, length) if self._ring_rows else range(0)
        changed = (length, rows) != (self.state.length, self.state.rows)
        version = self.state.version + changed
        self.state = replace(
            self.state, version=version, length=length, rows=rows, oldest=tuple(oldest)
        )

    def begin_epoch(self) -> None:
        """Begin an epoch: equal tokens may have other keys from now on."""
        self.state = replace(self.state, version=self.state.version + 1, epoch=self.state.epoch + 1)

    def gains_changed(self) -> None:
        """Record that the rows are used with other gains from now on."""
        self.state = replace(self.state, version=self.state.version + 1)
