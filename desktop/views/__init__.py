"""The views: a function of the state, and of what surrounds it, that returns a person's actions.

A new view is a file here and a line in VIEWS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from llm_lite.desktop.state.actions import Action
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.views.attention import grid, heads
from llm_lite.desktop.views.cache import cache
from llm_lite.desktop.views.chat import chat
from llm_lite.desktop.views.program import log, performance
from llm_lite.desktop.views.quantization import modes
from llm_lite.desktop.views.tokens import lens, steer
from llm_lite.desktop.widgets.icons import (
    ICON_CHART,
    ICON_CHAT,
    ICON_DATABASE,
    ICON_EYE,
    ICON_GRID,
    ICON_LAYERS,
    ICON_LOG,
    ICON_SCALE,
    ICON_SLIDERS,
)
from llm_lite.desktop.widgets.ui import Ui


@dataclass(frozen=True, slots=True)
class View:
    """A dockable window; `name` is its identity in the remembered layout."""

    name: str
    title: str
    icon: str
    place: Literal["middle", "upper right", "lower right"]
    draw: Callable[[AppState, Ui], list[Action]]
    turn: int | None  # of pacing.TURNS, the one that draws it; dear ones differ; None: each

    @property
    def window(self) -> str:
        return f"{self.title}###{self.name}"


VIEWS = (
    View("chat", "Chat", ICON_CHAT, "middle", chat.draw, None),
    View("attention", "Attention", ICON_EYE, "upper right", grid.draw, 0),
    View("lens", "Lens", ICON_LAYERS, "upper right", lens.draw, 1),
    View("kv_cache", "KV cache", ICON_DATABASE, "upper right", cache.draw, 2),
    View("quantization", "Quantization", ICON_SCALE, "upper right", modes.draw, 3),
    View("performance", "Performance", ICON_CHART, "lower right", performance.draw, 1),
    View("head", "Head", ICON_GRID, "lower right", heads.draw, 0),
    View("steer", "Steer", ICON_SLIDERS, "lower right", steer.draw, 3),
    View("log", "Log", ICON_LOG, "lower right", log.draw, 2),
)
