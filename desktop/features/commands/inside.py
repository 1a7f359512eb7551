"""Commands that look inside the model, choose one, and compare ways to run it."""

from __future__ import annotations

from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.model import (
    AnswerSteered,
    EndComparison,
    ReadAgain,
    SetXRay,
    Steer,
)
from llm_lite.desktop.features.commands.command import Run, UserCommand
from llm_lite.desktop.features.commands.fields import open_address
from llm_lite.desktop.features.lesson.model import ShowLesson
from llm_lite.desktop.features.library.model import ShowLibrary
from llm_lite.desktop.features.library.state import LibraryTab
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import (
    CancelLoading,
    ChooseFile,
    SetAttention,
)
from llm_lite.desktop.features.program.requests import hindrance, obstacle
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization.model import ForgetReports, RunTask, StopTask
from llm_lite.desktop.features.quantization.state import TaskKind
from llm_lite.desktop.features.remote.model import Disconnect
from llm_lite.desktop.features.serving.model import SwitchServing
from llm_lite.desktop.language.translate import mark
from llm_lite.desktop.widgets.ui import Ui


def _open(popover: str) -> Run:
    def run(state: AppState, ui: Ui) -> list[Action]:
        ui.show_popover(popover)
        return []

    return run


def _xray(state: AppState, ui: Ui) -> list[Action]:
    return [SetXRay(replace(state.xray, shown=not state.xray.shown, at=None))]


def _large(state: AppState, ui: Ui) -> list[Action]:
    return [SetAttention(replace(state.attention, large=not state.attention.large))]


def _lesson(state: AppState, ui: Ui) -> list[Action]:
    return [ShowLesson(not state.lesson.shown)]


def _unlock(state: AppState, ui: Ui) -> list[Action]:
    return [SetAttention(replace(state.attention, locked=()))]


def _show_library(tab: LibraryTab | None) -> Run:
    return lambda state, ui: [ShowLibrary(True, tab)]


LOOK = (
    UserCommand(
        "xray", mark("X-ray: show the tokens, or the text"), "look", _xray, ("Ctrl+Shift+X",),
        when=lambda s, u: bool(s.messages), words="tokens",
    ),
    UserCommand(
        "large_heads", mark("Large view of the heads, or back"), "look", _large,
        ("Ctrl+Shift+A",), when=lambda s, u: u.maps is not None, words="attention maps",
    ),
    UserCommand(
        "lesson", mark("Follow one token: a lesson on this model"), "look", _lesson,
        ("Ctrl+Shift+L",), words="learn teach transformer explain how tutorial step",
    ),
    UserCommand(
        "unlock_heads", mark("Unlock all heads"), "look", _unlock,
        when=lambda s, u: bool(s.attention.locked), words="attention",
    ),
    UserCommand(
        "read_again", mark("Read the conversation again"), "look", lambda s, u: [ReadAgain()],
        when=lambda s, u: bool(s.messages) and not obstacle(s), words="cache refill",
    ),
    UserCommand(
        "unsteer", mark("All heads at gain 1"), "look", lambda s, u: [Steer(None)],
        when=lambda s, u: s.steering.gains is not None, words="steer reset",
    ),
    UserCommand(
        "answer_steered", mark("Answer with these gains"), "look", lambda s, u: [AnswerSteered()],
        when=lambda s, u: s.steering.gains is not None and bool(s.messages) and not obstacle(s),
    ),
    UserCommand(
        "end_comparison", mark("Show one answer only"), "look", lambda s, u: [EndComparison()],
        when=lambda s, u: s.comparing is not None,
    ),
)  # fmt: skip


def _connect(state: AppState, ui: Ui) -> list[Action]:
    open_address(ui)
    return []


MODEL = (
    UserCommand("models", mark("Models"), "model", _open("models"), ("Ctrl+M",), words="load"),
    UserCommand(
        "manage_models", mark("Manage models"), "model", _show_library(None), ("Ctrl+Shift+M",),
        words="library download hugging face local disk quantize delete import",
    ),
    UserCommand(
        "find_models", mark("Find models on the hub"), "model", _show_library("find"),
        words="search download hugging face library",
    ),
    UserCommand(
        "model_queue", mark("Queue of models"), "model", _show_library("queue"),
        words="downloads progress library",
    ),
    UserCommand(
        "connect", mark("Connect to a server"), "model", _connect,
        words="remote openai api vllm llama server lm studio url address",
    ),
    UserCommand(
        "disconnect", mark("Disconnect"), "model", lambda s, u: [Disconnect()],
        when=lambda s, u: s.elsewhere and not s.busy, words="remote server local",
    ),
    UserCommand(
        "open_file", mark("Open a model's file"), "model", lambda s, u: [ChooseFile()], ("Ctrl+O",),
        words="gguf load",
    ),
    UserCommand(
        "cancel_load", mark("Cancel the loading"), "model", lambda s, u: [CancelLoading()],
        when=lambda s, u: s.load is not None,
    ),
    UserCommand(
        "serving", mark("Serve this model…"), "model", _open("serving"),
        words="server openai api network address share port key",
    ),
    UserCommand(
        "stop_serving", mark("Stop serving"), "model", lambda s, u: [SwitchServing(False)],
        when=lambda s, u: s.serving.phase in ("starting", "on"),
    ),
    UserCommand(
        "sampler", mark("Sampling"), "model", _open("sampler"), ("Ctrl+P",),
        words="temperature presets",
    ),
    UserCommand(
        "system_prompt", mark("System prompt"), "model", _open("system_prompt"),
        words="instructions",
    ),
    UserCommand(
        "memory", mark("Context and KV cache"), "model", _open("memory"),
        words="context cache",
    ),
    UserCommand(
        "tools", mark("Tools"), "model", _open("tools"), words="functions mcp servers calls",
    ),
    UserCommand(
        "executor", mark("Where the model runs"), "model", _open("executor"),
        words="backend vulkan cpu weights",
    ),
)  # fmt: skip


def _task(kind: TaskKind) -> Run:
    return lambda state, ui: [RunTask(kind)]


def _can_measure(state: AppState, ui: Ui) -> bool:
    return state.quantization.work is None and not hindrance(state)


COMPARE = (
    UserCommand(
        "ask_both", mark("Ask both runs"), "compare", _task("runs"),
        when=lambda s, u: _can_measure(s, u)
        and s.holds_conversations
        and bool(s.quantization.choices.prompt.strip()),
    ),
    UserCommand(
        "measure_modes", mark("Measure the weight modes"), "compare", _task("modes"),
        when=_can_measure, words="speed quantization",
    ),
    UserCommand(
        "measure_step", mark("Measure a step"), "compare", _task("step"), when=_can_measure,
        words="profile performance",
    ),
    UserCommand(
        "study_kernels", mark("Measure the kernels"), "compare", _task("kernels"),
        when=_can_measure, words="matmul study performance roofline",
    ),
    UserCommand(
        "stop_task", mark("Stop the measurement"), "compare", lambda s, u: [StopTask()],
        when=lambda s, u: s.quantization.work is not None,
    ),
    UserCommand(
        "forget_reports", mark("Forget the reports"), "compare", lambda s, u: [ForgetReports()],
        when=lambda s, u: bool(s.quantization.reports),
    ),
)  # fmt: skip
