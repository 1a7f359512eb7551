"""Interventions: those of the conversation in front, and what the engine has of them."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.core.messages import NO_CHANGES, Interventions, ModelInfo, ModelInterventions
from llm_lite.core.messages.gains import gains_of
from llm_lite.core.records import replace


class Steering(Struct, frozen=True):
    """`interventions` are in force; `kept` are the conversation's, which are in force while the
    model that they were set for is in use. `wanted` come from a file, and are in force once the
    engine has taken them."""

    interventions: Interventions = NO_CHANGES
    kept: ModelInterventions | None = None
    wanted: Interventions | None = None

    def switched_experts(self, model: ModelInfo) -> int:
        """Return how many experts of a mixture count otherwise than the router says."""
        rows, count = gains_of(self.interventions, model)[model.gain_rows :], model.experts
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
        """Put the conversation's interventions in force if they are for the model in use."""
        kept = self.kept
        if kept is None or kept.path != model.path or not model.continues:
            return self
        return replace(self, interventions=kept.interventions)

    def set(self, interventions: Interventions, model: ModelInfo) -> Steering:
        """Set other interventions for the model in use. Only a conversation keeps them."""
        kept = self.kept
        if model.continues and interventions:
            kept = ModelInterventions(model.path, interventions)
        elif model.continues and kept is not None and kept.path == model.path:
            kept = None
        return Steering(interventions, kept)


class EngineInterventions(Struct, frozen=True):
    """The interventions that were sent to the engine last, and the last ones that it has taken,
    which are of the conversation numbered `chat` (`AppState.chat`)."""

    sent: Interventions = NO_CHANGES
    taken: Interventions = NO_CHANGES
    chat: int = 0
