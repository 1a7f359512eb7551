"""What the tour measures on its way, and its report."""

from __future__ import annotations

from dataclasses import asdict, field
from typing import Any

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.gpu.device import Device
from llm_lite.core.records import dataclass
from llm_lite.desktop.app.screen import Screen
from llm_lite.desktop.state.state import AppState, Message
from llm_lite.desktop.widgets.frame_times import percentiles

LEAST_ANSWER = 8  # tokens


def check_answer(state: AppState, answer: Message) -> None:
    """LlmLiteError where it is too short for what follows, which looks into it."""
    said = len(answer.tokens)
    if said < LEAST_ANSWER:
        problems = [notice.text for notice in state.notices]
        why = problems[-1] if problems else "ask something else with --prompt"
        raise LlmLiteError(
            f"the tour needs an answer of at least {LEAST_ANSWER} tokens, this model's has "
            f"{said}: {why}"
        )


@dataclass(slots=True)
class MeasuredStage:
    """Frame times by what the engine did meanwhile, in ms; moments in s after process start."""

    frames: dict[str, list[float]] = field(
        default_factory=lambda: {"idle": [], "prefill": [], "decode": []}
    )
    startup: dict[str, float] = field(default_factory=dict)
    recorded_during_decode: int = 0

    def report(
        self, state: AppState, answer: Message | None, device: Device, screen: Screen
    ) -> dict[str, Any]:
        """As JSON: the answer (an encoder writes none), who computed it where, times and counts."""
        info, maps = device.info, screen.maps
        return {
            "answer": answer.text if answer else "",
            "tokens": [token.id for token in answer.tokens] if answer else [],
            "stop_reason": answer.stop_reason if answer else None,
            "stats": asdict(answer.stats) if answer and answer.stats else {},
            "model": state.model.name if state.model else "",
            "executor": asdict(state.executor) if state.executor else {},
            "device": {
                "name": info.name,
                "kind": info.kind,
                "driver": info.driver,
                "api_version": str(info.api_version),
            },
            "frame_ms": {name: percentiles(times) for name, times in self.frames.items()},
            "frames_drawn": screen.loop.frames,
            "command_buffers_recorded_during_decode": self.recorded_during_decode,
            "attention": {
                "bytes_read_back_for_maps": maps.read_back["maps"],
                "bytes_read_back_for_the_pointer": maps.read_back["pointer"],
                "bytes_read_back_for_scores": maps.read_back["scores"],
                "memory": maps.memory,
            },
            "startup": self.startup,
        }
