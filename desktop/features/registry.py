"""All features of the window, each registered once.

What the program asks of features (`act`, `apply`, `due`, the views, pages and overlays) it asks in
this order. Two things depend on it: views of one place become tabs in this order, and gains follow
what else an action changes. The palette lists views by this register, and so stands above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar, get_args

from llm_lite.desktop.features.attachments import counting
from llm_lite.desktop.features.attachments import model as attachments
from llm_lite.desktop.features.attention import model as attention
from llm_lite.desktop.features.attention.heads import draw as draw_heads
from llm_lite.desktop.features.attention.rows import HEAD_ROWS, ROWS
from llm_lite.desktop.features.attention.state_cells import STATES
from llm_lite.desktop.features.attention.view import draw as draw_attention
from llm_lite.desktop.features.cache import model as cache
from llm_lite.desktop.features.cache.view import draw as draw_cache
from llm_lite.desktop.features.chat import model as chat
from llm_lite.desktop.features.chat.view import draw as draw_chat
from llm_lite.desktop.features.encoder import model as encoder
from llm_lite.desktop.features.experts.model import ROUTING
from llm_lite.desktop.features.experts.view import draw as draw_experts
from llm_lite.desktop.features.feature import Feature, Place, View
from llm_lite.desktop.features.file_chooser import model as file_chooser
from llm_lite.desktop.features.file_chooser.view import draw as draw_file_chooser
from llm_lite.desktop.features.history import model as history
from llm_lite.desktop.features.history import titles
from llm_lite.desktop.features.history.unshown import draw as draw_unshown
from llm_lite.desktop.features.history.view import draw as draw_conversations
from llm_lite.desktop.features.layouts import model as layouts
from llm_lite.desktop.features.lesson import model as lesson
from llm_lite.desktop.features.lesson.view import draw as draw_lesson
from llm_lite.desktop.features.library import model as library
from llm_lite.desktop.features.library.view import draw as draw_library
from llm_lite.desktop.features.palette import model as palette
from llm_lite.desktop.features.performance import model as performance
from llm_lite.desktop.features.performance.view import draw as draw_performance
from llm_lite.desktop.features.presets import model as presets
from llm_lite.desktop.features.program import asking, loading
from llm_lite.desktop.features.program import model as program
from llm_lite.desktop.features.program.log import draw as draw_log
from llm_lite.desktop.features.program.memory_question import draw as draw_memory_question
from llm_lite.desktop.features.prompts import model as prompts
from llm_lite.desktop.features.quantization import model as quantization
from llm_lite.desktop.features.quantization.comparison import draw as draw_runs
from llm_lite.desktop.features.quantization.view import draw as draw_modes
from llm_lite.desktop.features.remote import model as remote
from llm_lite.desktop.features.resume import model as resume
from llm_lite.desktop.features.sampling import model as sampling
from llm_lite.desktop.features.serving import model as serving
from llm_lite.desktop.features.steer import model as steering
from llm_lite.desktop.features.steer.view import EFFECT
from llm_lite.desktop.features.steer.view import draw as draw_steer
from llm_lite.desktop.features.tokenizer import model as tokenizer
from llm_lite.desktop.features.tokenizer.view import draw as draw_tokenizer
from llm_lite.desktop.features.tokens import model as tokens
from llm_lite.desktop.features.tokens.lens import LENS
from llm_lite.desktop.features.tokens.lens import draw as draw_lens
from llm_lite.desktop.features.tools import model as tools
from llm_lite.desktop.features.translator import model as translator
from llm_lite.desktop.features.tree import model as tree
from llm_lite.desktop.features.undo import model as undo
from llm_lite.desktop.language.translate import mark
from llm_lite.desktop.widgets.icons import (
    ICON_CHART,
    ICON_CHAT,
    ICON_COMPARE,
    ICON_DATABASE,
    ICON_EYE,
    ICON_GRID,
    ICON_LAYERS,
    ICON_LENS,
    ICON_LOG,
    ICON_NUMBERS,
    ICON_SCALE,
    ICON_SIDEBAR,
    ICON_STEER,
)

FEATURES = (
    Feature(
        "chat",
        chat.HANDLERS,
        replies=chat.REPLIES,
        views=(View("chat", mark("Chat"), ICON_CHAT, "middle", "conversation", draw_chat),),
        settings={"overflow": "overflow", "thinking": "thinking", "effort": "effort"},
        remember=chat.remember,
        restore=chat.restore,
    ),
    Feature(
        "history",
        {**history.HANDLERS, **titles.HANDLERS},
        replies=titles.REPLIES,
        on_action=history.reveal_shown,
        views=(
            View(
                "conversations",
                mark("Conversations"),
                ICON_SIDEBAR,
                "left",
                "conversations",
                draw_conversations,
                turn=2,
            ),
        ),
        settings={"model_titles": "history.titles"},
        overlays={"unshown conversation": draw_unshown},
    ),
    Feature("undo", undo.HANDLERS, on_action=undo.note_step),
    Feature(
        "library",
        library.HANDLERS,
        on_action=library.leave_page,
        page=draw_library,
    ),
    Feature(
        "lesson",
        lesson.HANDLERS,
        on_action=lesson.leave_page,
        due=(lesson.drop_position,),
        asks=(lesson.TRACE,),
        page=draw_lesson,
    ),
    Feature(
        "resume",
        resume.HANDLERS,
        replies=resume.REPLIES,
        asks=(resume.CHECK, resume.RESUMED),
        on_action=resume.keep_left,
        due=(resume.due,),
        settings={"resume": "resume.mode", "resume_budget": "resume.budget"},
    ),
    Feature(
        "sampling",
        on_action=sampling.note_choices,
        remember=sampling.remember,
        restore=sampling.restore,
    ),
    Feature(
        "performance",
        performance.HANDLERS,
        performance.EVENTS,
        views=(
            View(
                "performance",
                mark("Performance"),
                ICON_CHART,
                "lower right",
                "conversation",
                draw_performance,
                turn=1,
            ),
        ),
    ),
    Feature(
        "attention",
        attention.HANDLERS,
        replies=attention.REPLIES,
        on_action=attention.note_row,
        due=(attention.drop_row, attention.drop_reading),
        asks=(ROWS, HEAD_ROWS, STATES),
        views=(
            View(
                "attention",
                mark("Attention"),
                ICON_EYE,
                "upper right",
                "conversation",
                draw_attention,
                turn=0,
            ),
            View(
                "head", mark("Head"), ICON_GRID, "lower right", "conversation", draw_heads, turn=0
            ),
        ),
        remember=attention.remember,
        restore=attention.restore,
    ),
    Feature(
        "tokens",
        tokens.HANDLERS,
        restore=tokens.restore,
        asks=(LENS,),
        views=(
            View("lens", mark("Lens"), ICON_LENS, "upper right", "conversation", draw_lens, turn=1),
        ),
    ),
    Feature(
        "tokenizer",
        tokenizer.HANDLERS,
        asks=tokenizer.TOKENS,
        views=(
            View(
                "tokenizer", mark("Tokenizer"), ICON_NUMBERS, "upper right", "text", draw_tokenizer
            ),
        ),
    ),
    Feature(
        "cache",
        cache.HANDLERS,
        cache.EVENTS,
        asks=(cache.MEASURE,),
        views=(
            View(
                "kv_cache",
                mark("KV cache"),
                ICON_DATABASE,
                "upper right",
                "conversation",
                draw_cache,
                turn=2,
            ),
        ),
    ),
    Feature(
        "quantization",
        quantization.HANDLERS,
        replies=quantization.REPLIES,
        views=(
            View(
                "quantization",
                mark("Quantization"),
                ICON_SCALE,
                "upper right",
                "model",
                draw_modes,
                turn=3,
            ),
            View("runs", mark("Two runs"), ICON_COMPARE, "beside", "text", draw_runs),
        ),
    ),
    Feature(
        "steer",
        steering.HANDLERS,
        replies=steering.REPLIES,
        on_action=steering.follow_interventions,
        due=(steering.send_interventions, steering.compare_answer_due),
        asks=(EFFECT, steering.DIVERGENCE),
        views=(
            View(
                "steer",
                mark("Steer"),
                ICON_STEER,
                "lower right",
                "conversation",
                draw_steer,
                turn=3,
            ),
        ),
    ),
    Feature(
        "experts",
        asks=(ROUTING,),
        views=(
            View(
                "experts",
                mark("Experts"),
                ICON_LAYERS,
                "lower right",
                "conversation",
                draw_experts,
                turn=2,
            ),
        ),
    ),
    Feature(
        "attachments",
        attachments.HANDLERS,
        replies=attachments.REPLIES,
        due=(counting.count_due, attachments.count_due),
    ),
    Feature(
        "serving",
        serving.HANDLERS,
        serving.EVENTS,
        serving.REPLIES,
        due=(serving.due,),
        settings={"serving": "serving.choice"},
    ),
    Feature(
        "encoder",
        encoder.HANDLERS,
        asks=(encoder.ENCODED, encoder.SIMILARITIES),
        replies=encoder.REPLIES,
        due=(encoder.encode_due,),
    ),
    Feature("translator", translator.HANDLERS, replies=translator.REPLIES),
    Feature("tree", tree.HANDLERS),
    Feature("remote", remote.HANDLERS, remember=remote.remember, restore=remote.restore),
    Feature(
        "layouts",
        layouts.HANDLERS,
        on_action=layouts.follow_pages,
        remember=layouts.remember,
        restore=layouts.restore,
    ),
    Feature(
        "palette",
        palette.HANDLERS,
        settings={"choices": "palette.recent"},
    ),
    Feature("presets", presets.HANDLERS),
    Feature("prompts", prompts.HANDLERS),
    Feature("tools", tools.HANDLERS),
    Feature("file_chooser", file_chooser.HANDLERS, overlays={"file chooser": draw_file_chooser}),
    Feature(
        "program",
        {**program.HANDLERS, **asking.HANDLERS},
        loading.EVENTS,
        loading.REPLIES,
        views=(View("log", mark("Log"), ICON_LOG, "lower right", "program", draw_log, turn=2),),
        overlays={"memory question": draw_memory_question},
        settings={
            name: name for name in ("theme", "appearance", "language", "font_size", "recent")
        },
        remember=program.remember,
        restore=program.restore,
    ),
)
_PLACES = get_args(Place)
VIEWS = tuple(
    sorted(
        (view for feature in FEATURES for view in feature.views),
        key=lambda view: _PLACES.index(view.place),
    )
)
PAGES = {feature.name: feature.page for feature in FEATURES if feature.page is not None}
OVERLAYS = {name: draw for feature in FEATURES for name, draw in feature.overlays.items()}

K = TypeVar("K")
V = TypeVar("V")


def joined(tables: Iterable[Mapping[K, V]]) -> dict[K, V]:
    """Return the tables of all features as one. Raises ValueError where two have the same key."""
    whole: dict[K, V] = {}
    for table in tables:
        if twice := whole.keys() & table.keys():
            raise ValueError(f"two features handle {', '.join(map(str, twice))}")
        whole.update(table)
    return whole
