"""The queue of downloads, conversions and deletions: a row each, with its stages."""

from __future__ import annotations

from collections.abc import Sequence

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.messages.library import JobStage, ModelJob, Stage, StageState
from llm_lite.desktop.features.library.model import (
    CancelJob,
    DismissEnded,
    DismissJob,
    KeepSource,
    PauseJob,
    RemoveNow,
    ResumeJob,
    RetryJob,
    UndoRemoval,
)
from llm_lite.desktop.features.library.words import remaining
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import OpenModel
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.core_words import translated_stage
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.language.units import percent, sentence, size
from llm_lite.desktop.widgets.by_keyboard import FLAT
from llm_lite.desktop.widgets.icons import (
    ICON_CHECK,
    ICON_CHEVRON_RIGHT,
    ICON_CLOCK,
    ICON_CLOSE,
    ICON_ERROR,
    ICON_PAUSE,
    ICON_PLAY,
    ICON_REGENERATE,
    ICON_SAVE,
    ICON_TRASH,
    ICON_UNDO,
)
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, fit, meter, text, tip, wrapped

STAGES: dict[Stage, str] = {
    "download": mark("Download"),
    "slice": mark("Slice"),
    "quantize": mark("Quantize"),
    "delete source": mark("Delete the source"),
    "delete": mark("Delete"),
}
STATES: dict[StageState, tuple[str, str]] = {
    "waiting": (ICON_CLOCK, "faint"),
    "running": (ICON_PLAY, "link"),
    "paused": (ICON_PAUSE, "warning"),
    "done": (ICON_CHECK, "good"),
    "failed": (ICON_ERROR, "error"),
    "skipped": (ICON_CLOSE, "faint"),
}
WORK: tuple[StageState, ...] = ("waiting", "running")
STATE_NAMES: dict[StageState, str] = {
    "waiting": mark("waiting"),
    "running": mark("running"),
    "paused": mark("paused"),
    "done": mark("done"),
    "failed": mark("failed"),
    "skipped": mark("skipped"),
}
NOTHING = mark(
    "Nothing waits here. What you download, quantize or delete is done one after the other, and "
    "goes on where it was when this program is started again."
)
ENDED = 9.0  # height of the head above rows that have ended, in spacing units
USUAL = 24.0  # height of a row that was never in sight, in spacing units
DISMISS_HINT = mark("Rows of what is done and of what has failed; no file is deleted.")
DELETION = mark("Delete {name}")
ELSEWHERE = mark("Another window or terminal of this program does this work; it is shown here.")


class JobHeights(Struct):
    by_id: dict[str, float] = field(default_factory=dict)  # of rows that were drawn, in pixels


class JobButton(Struct, frozen=True):
    name: str
    label: str
    icon: str
    does: tuple[Action, ...]


def draw(state: AppState, ui: Ui) -> list[Action]:
    library, actions = state.library, list[Action]()
    if library.queue_problem:
        wrapped(ui, sentence(library.queue_problem), "warning")
    busy = any(job.current is not None and job.current.state in WORK for job in library.jobs)
    if busy and not library.queue_works:
        wrapped(ui, tr(ELSEWHERE))
    if not library.jobs:
        wrapped(ui, tr(NOTHING), style="body")
        return actions
    jobs = in_order(library.jobs)
    ended = [job for job in jobs if _has_ended(job)]
    imgui.begin_child("library.jobs", ImVec2(0, 0), FLAT)
    low = imgui.get_scroll_y()
    high = low + imgui.get_window_height()
    heights = ui.local(JobHeights).by_id
    y = 0.0
    for job in jobs:
        height = heights.get(job.id, ui.u(USUAL))
        imgui.set_cursor_pos(ImVec2(0, y))
        if len(ended) > 1 and job is ended[0]:
            actions += _draw_ended(ui)
            y += ui.u(ENDED)
            imgui.set_cursor_pos(ImVec2(0, y))
        if y + height >= low and y <= high:
            actions += _draw_job(state, ui, job)
            height = heights[job.id] = imgui.get_cursor_pos_y() - y
        y += height
    for gone in heights.keys() - {job.id for job in library.jobs}:
        del heights[gone]
    imgui.set_cursor_pos(ImVec2(0, y))
    imgui.dummy(ImVec2(1, 1))
    imgui.end_child()
    return actions


def _draw_ended(ui: Ui) -> list[Action]:
    """Draw the head of the rows that have ended, with a button for them all."""
    label, top = tr("Dismiss all"), imgui.get_cursor_pos_y()
    wide = _width(ui, JobButton("", label, ICON_CLOSE, ()))
    right = imgui.get_content_region_avail().x - wide - ui.u(3)  # as those of the rows
    imgui.set_cursor_pos_y(top + (ui.u(7) - ui.theme.text) / 2)
    text(ui, tr("Ended"), bold=True)
    imgui.same_line()
    imgui.set_cursor_pos(ImVec2(right, top))
    if button(ui, "library.jobs.dismiss", label, ICON_CLOSE, tr(DISMISS_HINT)):
        return [DismissEnded()]
    return []


def in_order(jobs: Sequence[ModelJob]) -> list[ModelJob]:
    """Return jobs still to be done, in order, then those that have ended, the latest first."""
    ended = [job for job in jobs if _has_ended(job)]
    return [job for job in jobs if not _has_ended(job)] + ended[::-1]


def _has_ended(job: ModelJob) -> bool:
    return job.current is None or job.current.state == "failed"


def _draw_job(state: AppState, ui: Ui, job: ModelJob) -> list[Action]:
    at, wide = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
    pad, draw = ui.u(3), imgui.get_window_draw_list()
    draw.channels_split(2)
    draw.channels_set_current(1)
    imgui.set_cursor_screen_pos(ImVec2(at.x + pad, at.y + ui.u(2.5)))
    imgui.begin_group()
    imgui.push_clip_rect(at, ImVec2(at.x + wide, at.y + ui.u(400)), True)
    actions = _draw_head(state, ui, job, wide - 2 * pad)
    if not job.deletes:
        _draw_stages(ui, job)
    stage = job.current
    if stage is not None and stage.state in ("running", "paused") and not job.deletes:
        _draw_progress(ui, stage, wide - 2 * pad)
    if job.deletes:
        wrapped(ui, _deletion(job), "muted")
    if job.message:
        imgui.push_text_wrap_pos(imgui.get_cursor_pos_x() + wide - 2 * pad)
        with ui.font(style="small"), ui.colored(text="error"):
            imgui.text_unformatted(sentence(job.message))
        imgui.pop_text_wrap_pos()
    imgui.pop_clip_rect()
    imgui.end_group()
    high = imgui.get_item_rect_max().y + ui.u(2.5)
    draw.channels_set_current(0)
    end = ImVec2(at.x + wide - ui.u(1), high)
    draw.add_rect(at, end, ui.color("border"), ui.theme.radius, ui.u(0.25))
    draw.channels_merge()
    ui.rects[f"library.job.{job.id}"] = (at.x, at.y, end.x, end.y)
    imgui.set_cursor_screen_pos(ImVec2(at.x, high + ui.u(2)))
    return actions


def _draw_head(state: AppState, ui: Ui, job: ModelJob, width: float) -> list[Action]:
    start, side = imgui.get_cursor_pos_x(), ui.u(7)
    title = tr(DELETION).format(name=job.title) if job.deletes else job.title
    buttons = _buttons(state, job)
    room = sum(_width(ui, one) + ui.u(2) for one in buttons) - ui.u(2)
    top = imgui.get_cursor_pos_y()
    imgui.set_cursor_pos_y(top + (side - ui.theme.text) / 2)
    with ui.font("bold"):
        words = fit(title, width - room - ui.u(3))
        imgui.text_unformatted(words)
        tip(ui, f"{title}\n{job.source}")
    actions: list[Action] = []
    x = start + width - room
    for one in buttons:
        imgui.same_line()
        imgui.set_cursor_pos(ImVec2(x, top))
        if button(ui, f"library.job.{job.id}.{one.name}", one.label, one.icon):
            actions += one.does
        x += _width(ui, one) + ui.u(2)
    return actions


def _width(ui: Ui, one: JobButton) -> float:
    words = f"{one.icon}  {one.label}" if one.icon else one.label
    return float(imgui.calc_text_size(words).x) + 2 * imgui.get_style().frame_padding.x


def _buttons(state: AppState, job: ModelJob) -> list[JobButton]:
    """Return the buttons of a job, by its state."""
    stage = job.current
    dismiss = JobButton("dismiss", tr("Dismiss"), ICON_CLOSE, (DismissJob(job.id),))
    if stage is None:
        model = state.library.model(job.result)
        if model is None or state.load is not None:
            return [dismiss]
        done = (OpenModel(str(model.path)),)
        return [JobButton("open", tr("Open"), "", done), dismiss]
    again = JobButton("retry", tr("Try again"), ICON_REGENERATE, (RetryJob(job.id),))
    if stage.state == "failed":
        return [again, dismiss]
    if job.deletes:
        if stage.state == "running":
            return []
        now = JobButton("now", tr("Delete now"), ICON_TRASH, (RemoveNow(job.id),))
        return [now, JobButton("undo", tr("Undo"), ICON_UNDO, (UndoRemoval(job.id),))]
    cancel = JobButton("cancel", tr("Cancel"), ICON_CLOSE, (CancelJob(job.id),))
    if stage.state == "paused":
        return [JobButton("resume", tr("Resume"), ICON_PLAY, (ResumeJob(job.id),)), cancel]
    found = [JobButton("pause", tr("Pause"), ICON_PAUSE, (PauseJob(job.id),)), cancel]
    if any(one.stage == "delete source" and one.state == "waiting" for one in job.stages):
        keep = JobButton("keep", tr("Keep the source"), ICON_SAVE, (KeepSource(job.id),))
        return [keep, *found]
    return found


def _deletion(job: ModelJob) -> str:
    """Return a sentence on what a deletion frees, and until when it can be undone."""
    stage = job.current
    if stage is None:
        return tr("Deleted: {size} are free again.").format(size=size(job.frees))
    words = tr("It will free {size}.").format(size=size(job.frees))
    if stage.state != "waiting":
        return words
    if stage.left is None:
        return f"{words} {tr('It waits until everything else in the queue is done.')}"
    seconds = trn(
        "It is deleted in {n} second.", "It is deleted in {n} seconds.", round(stage.left)
    )
    return f"{words} {seconds.format(n=round(stage.left))}"


def _draw_stages(ui: Ui, job: ModelJob) -> None:
    """Draw the stages in their order, each with its state."""
    for number, stage in enumerate(job.stages):
        if number:
            imgui.same_line(0, ui.u(2))
            text(ui, ICON_CHEVRON_RIGHT, "faint", "small")
            imgui.same_line(0, ui.u(2))
        icon, color = STATES[stage.state]
        label = tr(STAGES[stage.stage])
        if stage.stage == "quantize" and job.mode is not None:
            label = tr("Quantize to {mode}").format(mode=job.mode)
        elif stage.stage == "slice" and job.slice:
            label = tr("Slice to {name}").format(name=job.slice)
        text(ui, f"{icon} {label}", color, "small")
        tip(ui, tr(STATE_NAMES[stage.state]))


def _draw_progress(ui: Ui, stage: JobStage, width: float) -> None:
    share = min(1.0, stage.done / stage.total) if stage.total > 0 else 0.0
    meter(ui, share, width, ui.u(1.5), "accent" if stage.state == "running" else "faint")
    with ui.font(style="small"):
        right = progress_of(stage)
        room = width - imgui.calc_text_size(right).x - ui.u(4)
        detail = translated_stage(stage.detail)
        left = fit(detail, max(room, 1.0))
        start = imgui.get_cursor_pos_x()
        with ui.colored(text="muted"):
            imgui.text_unformatted(left or " ")
            tip(ui, detail if left != detail else "")
            imgui.same_line()
            imgui.set_cursor_pos_x(start + width - imgui.calc_text_size(right).x)
            imgui.text_unformatted(right)


def progress_of(stage: JobStage) -> str:
    """Return how much of a stage is done, how fast it is, and how long it still takes."""
    parts = []
    if stage.stage == "download":
        whole = size(stage.total) if stage.total > 0 else tr("an unknown size")
        parts.append(tr("{done} of {whole}").format(done=size(stage.done), whole=whole))
    elif stage.total > 0:
        parts.append(percent(stage.done / stage.total))
    if stage.state == "running":
        if stage.stage == "download" and stage.rate > 0:
            parts.append(tr("{size} a second").format(size=size(round(stage.rate))))
        if stage.left is not None:
            parts.append(remaining(stage.left))
    return "  ·  ".join(parts)
