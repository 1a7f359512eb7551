"""The compute pipelines of attention maps, their descriptor sets, and how they are recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_lite.core.gpu.create import vk
from llm_lite.core.gpu.device import Device
from llm_lite.core.gpu.pipeline_store import Pipelines
from llm_lite.core.gpu.pipelines import BufferRange, ComputePipeline, DescriptorSets
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.desktop.render.imgui_renderer import ImguiRenderer

ROWS = 4  # query rows a job, at most
FEW_ROWS = 1  # jobs of so few have a pipeline of their own
KEYS = 4  # keys a lane takes together
LANES, SOFTWARE_LANES = 64, 8  # a software driver runs lanes one after the other
COLOR_CHUNK = 2048  # pixels a workgroup colours


class Kernels:
    """Pipelines, made at first use, and sets, kept by name until `forget`."""

    def __init__(self, device: Device, renderer: ImguiRenderer) -> None:
        self._device = device
        self._renderer = renderer
        self._lanes = SOFTWARE_LANES if device.info.kind == "software" else LANES
        self._pipelines = Pipelines(device)
        self._sets = DescriptorSets(device)
        self._bound: dict[Any, Any] = {}

    def map(self, layer: AttentionLayer, rows: int, bias_columns: int = 0) -> ComputePipeline:
        """Return the pipeline for jobs of at most `rows` rows; `bias_columns` is 0 without a
        bias."""
        constants = {
            "LANES": self._lanes,
            "HEADS": layer.heads,
            "KV_HEADS": layer.kv_heads,
            "HEAD_DIM": layer.head_dim,
            "SCALE": float(layer.scale),
            "WINDOW": layer.window,
            "ROWS": rows,
            "KEYS": KEYS,
            "KEY_ROWS": layer.key_rows,
            "SOFTCAP": float(layer.softcap),
        }
        if layer.cross:
            constants["CROSS"] = 1
        if bias_columns:
            constants |= {"BIAS_COLUMNS": bias_columns, "BIAS_STRIDE": bias_columns}
            constants["BIAS_BEFORE"] = layer.bias_before
        return self._pipelines.get(f"attention_map.{layer.key_dtype}", constants)

    def plain(self, name: str) -> ComputePipeline:
        return self._pipelines.get(name, {"LANES": self._lanes})

    def dispatch(
        self,
        commands: Any,
        pipeline: ComputePipeline,
        key: Any,
        buffers: Mapping[str, BufferRange],
        push: tuple[int | float, ...],
        groups: int,
    ) -> None:
        """Record `groups` workgroups; `key` names the buffers, which are bound at first use."""
        if (pipeline, key) not in self._bound:
            self._bound[pipeline, key] = pipeline.bind(self._sets, buffers)
        words = vk.ffi.new("uint32_t[]", len(push))
        floats = vk.ffi.cast("float*", words)
        for i, value in enumerate(push):
            if isinstance(value, float):
                floats[i] = value
            else:
                words[i] = value
        stage = vk.VK_SHADER_STAGE_COMPUTE_BIT
        vk.lib.vkCmdPushConstants(commands, pipeline.layout, stage, 0, 4 * len(push), words)
        pipeline.dispatch(commands, self._bound[pipeline, key], (groups, 1))

    def forget(self) -> None:
        """Bind buffers again, as some have gone. Sets of frames in flight live on until these are
        done."""
        self._renderer.retire(self._sets.close)
        self._sets = DescriptorSets(self._device)
        self._bound.clear()

    def close(self) -> None:
        self._sets.close()
        self._pipelines.close()


def whole(buffer: Any) -> BufferRange:
    return buffer, 0, buffer.size
