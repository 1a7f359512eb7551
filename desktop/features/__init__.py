"""The views: a function of the state, and of what surrounds it, that returns a person's actions.

A new view is a file in one of the folders and a line in VIEWS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from llm_lite.desktop.features.attention.heads import draw as draw_heads
from llm_lite.desktop.features.attention.view import draw as draw_attention
from llm_lite.desktop.features.cache.view import draw as draw_cache
from llm_lite.desktop.features.chat.view import draw as draw_chat
from llm_lite.desktop.features.encoder.no_writing import draw_reason
from llm_lite.desktop.features.history.view import draw as draw_conversations
from llm_lite.desktop.features.performance.view import draw as draw_performance
from llm_lite.desktop.features.program.act import Action
from llm_lite.desktop.features.program.log import draw as draw_log
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization.comparison import draw as draw_runs
from llm_lite.desktop.features.quantization.view import draw as draw_modes
from llm_lite.desktop.features.steer.view import draw as draw_steer
from llm_lite.desktop.features.tokenizer.view import draw as draw_tokenizer
from llm_lite.desktop.features.tokens.lens import draw as draw_lens
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.icons import (
    ICON_CHART,
    ICON_CHAT,
    ICON_COMPARE,
    ICON_DATABASE,
    ICON_EYE,
    ICON_GRID,
    ICON_LENS,
    ICON_LOG,
    ICON_NUMBERS,
    ICON_SCALE,
    ICON_SIDEBAR,
    ICON_STEER,
)
from llm_lite.desktop.widgets.ui import Ui

Place = Literal["middle", "left", "beside", "upper right", "lower right"]
# Whose data a view draws. What is of a conversation is of the one in front: a view of another
# subject reads nothing of it, and shows itself which text, model or conversations it is of.
Subject = Literal["conversation", "conversations", "model", "text", "program"]


class View(Struct, frozen=True):
    """A dockable window; `name` is its identity in the remembered layout."""

    name: str
    title: str
    icon: str
    place: Place
    subject: Subject
    draw: Callable[[AppState, Ui], list[Action]]
    turn: int | None  # of pacing.TURNS, the one that draws it; dear ones differ; None: each

    @property
    def window(self) -> str:
        return f"{tr(self.title)}###{self.name}"


VIEWS = (
    View("chat", mark("Chat"), ICON_CHAT, "middle", "conversation", draw_chat, None),
    View(
        "conversations",
        mark("Conversations"),
        ICON_SIDEBAR,
        "left",
        "conversations",
        draw_conversations,
        2,
    ),
    View(
        "attention", mark("Attention"), ICON_EYE, "upper right", "conversation", draw_attention, 0
    ),
    View("lens", mark("Lens"), ICON_LENS, "upper right", "conversation", draw_lens, 1),
    View("tokenizer", mark("Tokenizer"), ICON_NUMBERS, "upper right", "text", draw_tokenizer, None),
    View("kv_cache", mark("KV cache"), ICON_DATABASE, "upper right", "conversation", draw_cache, 2),
    View("quantization", mark("Quantization"), ICON_SCALE, "upper right", "model", draw_modes, 3),
    View(
        "performance",
        mark("Performance"),
        ICON_CHART,
        "lower right",
        "conversation",
        draw_performance,
        1,
    ),
    View("head", mark("Head"), ICON_GRID, "lower right", "conversation", draw_heads, 0),
    View("steer", mark("Steer"), ICON_STEER, "lower right", "conversation", draw_steer, 3),
    View("log", mark("Log"), ICON_LOG, "lower right", "program", draw_log, 2),
    View("runs", mark("Two runs"), ICON_COMPARE, "beside", "text", draw_runs, None),
)


def draw_view(view: View, state: AppState, ui: Ui) -> list[Action]:
    """What the view shows; of an encoder, why there is none of what a model writes."""
    return [] if draw_reason(state, ui, view.name) else view.draw(state, ui)
