"""Gains of the heads: those of the conversation in front."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.core.messages import Gains, ModelGains, ModelInfo
from llm_lite.core.records import replace


class Steering(Struct, frozen=True):
    """`gains` are in force, None where all are 1; `kept` are the conversation's, which are in force
    while the model that they were set for is in use."""

    gains: Gains | None = None
    kept: ModelGains | None = None

    def changed_heads(self, model: ModelInfo) -> int:
        """Return how many heads have another gain than 1."""
        return sum(gain != 1.0 for row in (self.gains or ())[: model.gain_rows] for gain in row)

    def switched_experts(self, model: ModelInfo) -> int:
        """Return how many experts of a mixture count otherwise than the router says."""
        rows, count = (self.gains or ())[model.gain_rows :], model.experts
        return sum(
            (row[expert], row[count + expert]) != (1.0, 1.0)
            for row in rows
            if row.count(1.0) < len(row)  # most rows are plain, and each frame counts
            for expert in range(count)
        )

    def of_next_conversation(self) -> Steering:
        return Steering()

    def of_next_model(self) -> Steering:
        return Steering(kept=self.kept)

    def fit(self, model: ModelInfo) -> Steering:
        """Put the conversation's gains in force if they belong to the heads of the model in use."""
        kept = self.kept
        if kept is None or kept.path != model.path or not model.continues:
            return self
        if tuple(map(len, kept.gains)) != model.gain_widths:
            return self
        return replace(self, gains=kept.gains)

    def set(self, gains: Gains | None, model: ModelInfo) -> Steering:
        """Set other gains for the model in use. Only a conversation keeps them."""
        kept = self.kept
        if model.continues and gains is not None:
            kept = ModelGains(model.path, gains)
        elif model.continues and kept is not None and kept.path == model.path:
            kept = None
        return replace(self, gains=gains, kept=kept)
