"""The account of what computed drafts cost and saved, by which those that do not pay stay cheap."""

from __future__ import annotations

from msgspec import Struct

_SHARE = 0.005  # of the time that answers take, which drafts may lose
_GRACE = 4  # single passes that a source may lose before it is known


class DraftLedger(Struct):
    """The account of a source whose drafts take time: seconds that they lost, in net, and seconds
    of all passes meanwhile. Earlier savings pay for nothing later."""

    lost: float = 0.0
    spent: float = 0.0
    is_trial: bool = False  # the last draft was one that seemed not to pay

    def note(self, lost: float, reading: float) -> None:
        """Record by how many seconds a draft and the pass that verified it took longer (below 0:
        less) than a pass for each token that they brought. `reading` of it went into text that the
        source had not read: later drafts are the cheaper for it, so that it only counts where they
        seem not to pay."""
        self.lost = max(0.0, self.lost + lost - (0.0 if self.is_trial else reading))

    def may_draft(self, single: float) -> bool:
        """Return True if drafts that seem to pay may be made; `single` is T(1), seconds."""
        return self.lost <= _SHARE * self.spent + _GRACE * single

    def may_try(self, cost: float) -> bool:
        """Return True if drafts that seemed not to pay may be tried again, at `cost` seconds."""
        return self.lost + cost <= _SHARE * self.spent
