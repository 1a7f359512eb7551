"""The model that a scripted service says it has."""

from __future__ import annotations

import math

from llm_lite.core.messages import MODES, CacheLayerInfo, CacheLayout, ModelInfo, ToolStyle

LAYERS, HEADS, WIDTH = 4, 3, 32


def model_info(name: str, context: int, tool_style: ToolStyle) -> ModelInfo:
    return ModelInfo(
        name=name,
        path="/somewhere/secret/scripted.gguf",
        architecture="llama",
        parameters=1_000_000,
        file_bytes=2_000_000,
        weight_bytes=2_000_000,
        kv_bytes=0,
        context=context,
        trained_context=context,
        vocabulary=math.floor(1e6),
        layers=LAYERS,
        heads=HEADS,
        kv_heads=HEADS,
        head_dim=8,
        width=WIDTH,
        feed_forward=64,
        cache=CacheLayout(
            tuple(CacheLayerInfo(layer, (), context, 0, 48, 48) for layer in range(LAYERS))
        ),
        has_chat_template=True,
        tool_style=tool_style,
        mode_bytes=dict.fromkeys(MODES, 2_000_000),
    )
