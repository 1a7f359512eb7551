"""Interventions of tests."""

from __future__ import annotations

from llm_lite.core.messages import NO_CHANGES, Gains, Interventions, ModelInfo
from llm_lite.core.messages.gains import from_old_gains, gains_of, with_gains
from llm_lite.desktop.features.program.state import AppState


def scales(gains: Gains | None) -> Interventions:
    """Return gains [layers][heads] of a decoder, and behind them switches of experts, as
    interventions."""
    return from_old_gains(gains)


def weighed(gains: Gains, model: ModelInfo) -> Interventions:
    """Return gains of a model, a row for each of its `gain_sites`, as interventions."""
    return with_gains(NO_CHANGES, gains, model)


def gains_in(state: AppState) -> Gains:
    """Return the gains in force in the window."""
    assert state.model is not None
    return gains_of(state.steering.interventions, state.model)
