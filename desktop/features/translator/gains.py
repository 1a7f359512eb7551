"""The gains of one part of a model: rows of all its gains, in the order of `SetGains`."""

from __future__ import annotations

from llm_lite.core.messages import AttentionPart, Gains, ModelInfo


def rows_of(model: ModelInfo, part: AttentionPart) -> slice:
    """Of a model that is no encoder-decoder: all."""
    if model.translator is None:
        return slice(0, model.layers)
    layers = model.layers
    match part:
        case "decoder":
            return slice(0, layers)
        case "cross":
            return slice(layers, 2 * layers)
        case "encoder":
            return slice(2 * layers, 2 * layers + model.translator.encoder_layers)


def all_gains(model: ModelInfo, gains: Gains | None) -> Gains:
    """Those in force; None stands for 1 everywhere."""
    return gains or ((1.0,) * model.heads,) * model.gain_rows


def with_part(gains: Gains, rows: slice, part: Gains) -> Gains:
    """With other rows of one part."""
    return (*gains[: rows.start], *part, *gains[rows.stop :])
