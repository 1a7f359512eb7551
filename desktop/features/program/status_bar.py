"""One line below everything: who computes, how fast, and how much of the context is used."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import (
    ACTIVATIONS,
    MODES,
    Activations,
    Backend,
    DraftLearning,
    DraftModelInfo,
    DraftsLearned,
    EngineOptions,
    ExecutorInfo,
    ExpertsIn,
    GenerationStats,
    Mode,
    Speculate,
)
from llm_lite.core.messages.library import LocalModel
from llm_lite.core.records import replace
from llm_lite.desktop.features.cache.overflow import WHEN_FULL, shade, used_share
from llm_lite.desktop.features.chat.reading import tokens_in_front, tokens_words
from llm_lite.desktop.features.encoder.model import encoder_measures, read_share
from llm_lite.desktop.features.lesson.other_views import draw_return_button, return_width
from llm_lite.desktop.features.library.model import ListModels
from llm_lite.desktop.features.performance.model import ForgetLearned, by_source, gain
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import SetOptions
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.remote.view import NO_EXECUTOR, draw_unreported
from llm_lite.desktop.features.serving import sign
from llm_lite.desktop.features.translator.model import target_measures
from llm_lite.desktop.language.core_words import translated
from llm_lite.desktop.language.translate import mark, tr, tr_labels, trn
from llm_lite.desktop.language.units import duration, percent, rate, sentence, size
from llm_lite.desktop.widgets.controls import chooser, picker
from llm_lite.desktop.widgets.icons import (
    ICON_CHEVRON_UP,
    ICON_CPU,
    ICON_GPU,
    ICON_LINK,
    ICON_TRASH,
    ICON_WARNING,
)
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import (
    fit,
    icon_button,
    meter,
    popover,
    row_button,
    text,
    tip,
    wrapped,
)

LEARNING: tuple[tuple[DraftLearning, str], ...] = (
    ("off", mark("Off")), ("use", mark("Use only")), ("learn", mark("Learn")),
)  # fmt: skip
HINTS: dict[DraftLearning, str] = {
    "off": mark("What was answered in other conversations is not used, and nothing is learned."),
    "use": mark("Draft from what was learned so far. Nothing is added to it."),
    "learn": mark(
        "Draft from this model's answers in other conversations too. Which tokens follow "
        "which in them is kept in a small file on this machine. Questions are not learned."
    ),
}
DELETE_HINT = mark("Delete what was learned, of all models. Conversations stay.")
NOTHING = mark("Nothing is learned yet.")


HINT = mark(
    "A smaller model with the same vocabulary. It drafts tokens where the text does not "
    "repeat itself, as long as that is faster; answers are the same."
)
NONE = mark("None: drafts come from repeats in the text only")
BACKENDS: tuple[tuple[Backend, str], ...] = (
    ("auto", mark("Auto")), ("vulkan", "Vulkan"), ("cpu", "CPU"), ("numpy", "NumPy"),
)  # fmt: skip
BACKEND_HINTS = (
    mark("The graphics card where there is a usable one, else the C++ executor"),
    mark("The Vulkan device that also draws this window, or another one"),
    mark("The C++ executor on all cores"),
    mark("The reference implementation in NumPy: slow, and what the others are compared with"),
)
ACCELERATOR_HINT = mark(
    "An executor that an installed package adds. It runs the ops that it takes, C++ all others"
)
MODE_HINTS = (
    mark("The file's own blocks"),
    mark("4 bytes a weight"),
    mark("2 bytes a weight"),
    mark("8.5 bits a weight"),
    mark("4.5 bits a weight"),
)
ACTIVATION_HINTS = (
    mark("The fastest here"),
    mark("float32 activations: exact"),
    mark("int8 activations in blocks: integer dot products, faster, a little less exact"),
)
EXPERTS: tuple[tuple[ExpertsIn, str], ...] = (
    ("auto", mark("Auto")), ("memory", mark("Memory")), ("cpu", "CPU"), ("file", mark("File")),
)  # fmt: skip
EXPERTS_HINTS = (
    mark("The first of the other three that fits"),
    mark("Where the other weights are: the fastest answers"),
    mark("In the host's memory, computed by the processor; the device has all else"),
    mark(
        "As the file has them: it opens at once, memory holds what it has room for, and the "
        "rest comes from the disk when it is chosen. The processor computes them"
    ),
)
WHERE_EXPERTS = {
    "cpu": mark("Experts: in the host's memory, computed by the processor"),
    "file": mark("Experts: in the file; memory holds what it has room for"),
}
DRAFTS: tuple[tuple[Speculate, str], ...] = (
    ("off", mark("Off")), ("auto", mark("Auto")), ("lookup", mark("Always")),
)  # fmt: skip
DRAFT_HINTS = (
    mark("No drafts: one pass over the weights for each token"),
    mark("Draft tokens where that is faster, from repeats in the text first; answers are the same"),
    mark("Draft as many tokens as one pass can verify, faster or not; answers are the same"),
)
SLICE: tuple[Speculate, str] = ("slice", mark("By slice"))  # of models that have one
DECODE_HINT = mark("How fast tokens are written: live while an answer comes, then its average.")
DISK_HINT = mark(
    "What came from the disk for each token of the last answer: weights that memory had no "
    "room for."
)
SLICE_HINT = mark(
    "As Auto; where the text repeats nothing, the smaller model inside these weights "
    "drafts; answers are the same"
)


def draw(state: AppState, ui: Ui) -> list[Action]:
    """The bar fills the current window; its left part opens the menu of executors."""
    height = ui.status_height
    items = _measures(state)
    with ui.font(style="small"):
        widths = [imgui.calc_text_size(value).x for _, value, _ in items]
        right = _draw_measures(state, ui, items, widths, height)
        actions = _draw_executor(state, ui, height, right)
    corner = imgui.get_window_pos()
    at = ImVec2(corner.x + ui.u(2), corner.y - ui.u(1))
    with popover(ui, "executor", tr("Where the model runs"), at, ui.u(96), (0, 1)) as shown:
        return actions + (_draw_menu(state, ui) if shown else [])


def _draw_executor(state: AppState, ui: Ui, height: float, room: float) -> list[Action]:
    side = ui.u(6.5)
    imgui.set_cursor_pos(ImVec2(ui.u(2), (height - side) / 2))
    label, icon = _executor_label(state)
    room -= sign.width(state, ui) + return_width(state, ui)
    with ui.colored(button="-", text="muted"), ui.styled(frame_padding=(ui.u(1.5), 0.0)):
        shown = fit(f"{icon}  {label}", room - ui.u(18))
        if imgui.button(f"{shown}  {ICON_CHEVRON_UP}##executor", ImVec2(0, side)):
            ui.opened = "executor"
    ui.mark("status.executor")
    reason = state.executor.reason if state.executor else ""
    tip(ui, _executor_hint(state, label))
    if reason:
        imgui.same_line(0, ui.u(1))
        imgui.set_cursor_pos_y((height - ui.theme.size("small")) / 2)
        with ui.colored(text="warning" if state.options.backend != "cpu" else "muted"):
            imgui.text_unformatted(ICON_WARNING)
        ui.mark("status.reason")
        tip(ui, sentence(translated(reason)))
    sign.draw_sign(state, ui, height)
    return draw_return_button(state, ui, height)


def _executor_label(state: AppState) -> tuple[str, str]:
    executor = state.executor
    if executor is None:
        return (tr("Loading") if state.load else tr("No model")), ICON_CPU
    connection = state.remote.connection
    if connection is not None:
        return f"{connection.model.title}  ·  {connection.where}", ICON_LINK
    icon = ICON_GPU if executor.backend == "vulkan" else ICON_CPU
    name = {**dict(BACKENDS), "remote": ""}.get(executor.backend, executor.backend)
    return f"{name}  ·  {weights_format(state)}  ·  {executor.device}", icon


def weights_format(state: AppState) -> str:
    """Return what most weights are computed from: a mode, or the format that the file stores."""
    mode = state.executor.mode if state.executor else ""
    stored = state.model.stored_formats if state.model else {}
    if mode != "as-stored" or not stored:
        return mode
    return max(stored, key=lambda name: stored[name]).upper()


def _executor_hint(state: AppState, label: str) -> str:
    """Return all of how the model is computed, a line each."""
    lines, executor = [label], state.executor
    if executor is not None and state.remote.connection is None:
        stored = state.model.stored_formats if state.model else {}
        formats = ", ".join(sorted(stored, key=lambda name: -stored[name])).upper()
        weights: str = executor.mode
        if executor.mode == "as-stored" and formats:
            weights = tr("as the file stores them ({formats})").format(formats=formats)
        if executor.shared:
            lines.append(sentence(translated(executor.shared)))
        lines.append(tr("Weights: {format}").format(format=weights))
        lines += _mixture(state, executor)
        lines.append(tr("Activations: {format}").format(format=_activations(executor.activations)))
        if not state.encodes:
            keys, values = executor.keys, executor.values
            kept = keys if keys == values else f"{keys} / {values}"
            lines.append(tr("KV cache: {format}").format(format=kept))
        if state.holds_conversations:
            drafts = dict((*DRAFTS, SLICE)).get(state.options.speculate, "")
            lines.append(tr("Drafts: {choice}").format(choice=tr(drafts)))
    return "\n".join([*lines, "", tr("Click to choose where the model runs.")])


def _mixture(state: AppState, executor: ExecutorInfo) -> list[str]:
    """Return what a token reads of a mixture of experts, and where these are."""
    if not executor.active_bytes or state.model is None:
        return []
    whole, active = size(state.model.weight_bytes), size(executor.active_bytes)
    words = tr("A token reads {active} of {whole}: only the experts that it chooses.")
    lines = [words.format(active=active, whole=whole)]
    if executor.experts in WHERE_EXPERTS:
        lines.append(tr(WHERE_EXPERTS[executor.experts]))
    return lines


def _activations(kind: str) -> str:
    return {"a8": "int8 (a8)", "a32": "float32 (a32)"}.get(kind, kind)


def _measures(state: AppState) -> list[tuple[str, str, str]]:
    """Name, shown text and what it means, from left to right."""
    if state.encodes:
        return encoder_measures(state)
    if state.writes_targets:
        return target_measures(state)
    stats, running = state.last_stats, state.running
    prompt = stats.prefill_tok_s if stats else 0.0
    first = stats.ttft_ms if stats else 0.0
    if running:  # what it brings is told as soon as it is known, not what another answer brought
        prompt, first = 0.0, running.ttft_ms
    used, whole = tokens_in_front(state), state.model.context if state.model else 0
    taken = "–" if used is None else tokens_words(state, used)
    return [
        *_from_disk(stats),
        (
            "prompt",
            tr("Prompt {speed}").format(speed=_speed(prompt)),
            tr("How fast the prompt was read."),
        ),
        (
            "decode",
            tr("Decode {speed}").format(speed=_speed(state.decode_rate)),
            "\n".join(filter(None, (tr(DECODE_HINT), _drafting(state)))),
        ),
        (
            "ttft",
            tr("First token {time}").format(time=duration(first)),
            tr("From sending to the first token."),
        ),
        (
            "context",
            f"{taken} / {whole:,}" if whole else taken if used else "–",
            f"{tr('Tokens of this conversation, of those that the context takes.')} "
            f"{tr(WHEN_FULL[state.overflow])}",
        ),
    ]


def _from_disk(stats: GenerationStats | None) -> list[tuple[str, str, str]]:
    """Return what a token of the last answer read from the disk, if any did."""
    if stats is None or not stats.disk_bytes_per_token:
        return []
    words = tr("Disk {size} a token").format(size=size(stats.disk_bytes_per_token))
    return [("disk", words, tr(DISK_HINT))]


def _drafting(state: AppState) -> str:
    """Return how drafts did in the last answer; "" where none were made."""
    stats = state.last_stats
    if stats is None or not stats.drafted or state.running:
        return ""
    words = tr("Drafts: {share} of {n:,} tokens accepted, {gain}.")
    share = percent(stats.accepted / stats.drafted)
    words = words.format(share=share, n=stats.drafted, gain=gain(stats))
    return "\n".join(filter(None, ("", words, by_source(stats))))


def _speed(tokens_per_second: float) -> str:
    return f"{rate(tokens_per_second)} tok/s" if tokens_per_second > 0 else "–"


def _draw_measures(
    state: AppState, ui: Ui, items: list[tuple[str, str, str]], widths: list[float], height: float
) -> float:
    """Draw measures right aligned, as many as leave room for the executor; return where they
    begin."""
    bar, gap = ui.u(14), ui.u(5)
    room = imgui.get_window_width() * 0.62
    total = sum(widths) + gap * len(items) + bar + ui.u(2)
    while total > room and len(items) > 1:
        total -= widths[0] + gap
        items, widths = items[1:], widths[1:]
    start = x = imgui.get_window_width() - total
    top = (height - ui.theme.size("small")) / 2
    for (name, shown, hint), width in zip(items, widths, strict=True):
        if name == "context":
            imgui.set_cursor_pos(ImVec2(x, (height - ui.u(1)) / 2))
            full, color = _full(state)
            meter(ui, full, bar - ui.u(2), ui.u(1), color)
            x += bar
        imgui.set_cursor_pos(ImVec2(x, top))
        with ui.colored(text="muted"):
            imgui.text_unformatted(shown)
        ui.mark(f"status.{name}")
        tip(ui, hint)
        x += width + gap
    return start


def _full(state: AppState) -> tuple[float, str]:
    """Return the share of the context that is used, and the colour of its bar."""
    if state.encodes:
        return read_share(state), "accent"
    return used_share(state), shade(state)


def _draw_drafts(
    state: AppState, ui: Ui, options: EngineOptions
) -> tuple[EngineOptions, list[Action]]:
    """Draw the choice of drafts; return the options as they are chosen."""
    text(ui, tr("Drafts"), style="small")
    has_slice = state.model is not None and state.model.has_slice
    ways = (*DRAFTS, SLICE) if has_slice else DRAFTS
    hints = [*map(tr, (*DRAFT_HINTS, SLICE_HINT)[: len(ways)])]
    drafts = chooser(ui, "executor.speculate", tr_labels(ways), options.speculate, hints)
    options = replace(options, speculate=drafts)
    if options.speculate != "off":
        options = draw_draft_model(state, ui, options)
    if options.weighs_drafts:
        options = draw_learned_drafts(ui, options)
    return options, draw_learned(state, ui)


def backend_labels(state: AppState) -> list[tuple[Backend, str]]:
    """Return the executors that there are with their labels, and the one that is chosen."""
    ours, others = tr_labels(BACKENDS), state.library.accelerators
    names = dict.fromkeys((*dict(ours), *others, state.options.backend))
    return [(name, dict(ours).get(name, name)) for name in names]


def _draw_menu(state: AppState, ui: Ui) -> list[Action]:
    if state.elsewhere:
        draw_unreported(state, ui, NO_EXECUTOR, offers_local=False)
        return []
    options, actions = state.options, list[Action]()
    library = state.library  # what is on this machine is looked for when the menu is first shown
    if library.local is None and not library.listing and not library.list_problem:
        actions.append(ListModels())
    if state.executor and state.executor.reason:
        wrapped(
            ui,
            sentence(translated(state.executor.reason)),
            "warning" if options.backend == "auto" else "muted",
        )
    if state.executor and state.executor.shared:
        wrapped(ui, sentence(translated(state.executor.shared)))
    text(ui, tr("Executor"), style="small")
    labels = backend_labels(state)
    others = (ACCELERATOR_HINT,) * (len(labels) - len(BACKEND_HINTS))
    hints = [*map(tr, (*BACKEND_HINTS, *others))]
    backend = chooser(ui, "executor.backend", labels, options.backend, hints)
    options = replace(options, backend=backend)
    text(ui, tr("Weights"), style="small")
    modes: list[tuple[Mode, str]] = [(mode, mode) for mode in MODES]
    options = replace(
        options, mode=chooser(ui, "executor.mode", modes, options.mode, [*map(tr, MODE_HINTS)])
    )
    text(ui, tr("Activations"), style="small")
    kinds: list[tuple[Activations, str]] = [(kind, translated(kind)) for kind in ACTIVATIONS]
    chosen = chooser(
        ui, "executor.activations", kinds, options.activations, [*map(tr, ACTIVATION_HINTS)]
    )
    options = replace(options, activations=chosen)
    if state.model is not None and state.model.experts:
        text(ui, tr("Experts"), style="small")
        hints = [*map(tr, EXPERTS_HINTS)]
        where = chooser(ui, "executor.experts", tr_labels(EXPERTS), options.experts, hints)
        options = replace(options, experts=where)
    if state.holds_conversations:  # others guess nothing ahead
        options, asked = _draw_drafts(state, ui, options)
        actions += asked
    text(ui, tr("Vulkan devices"), style="small")
    if not state.devices:
        wrapped(ui, tr("None was found."))
    for device in state.devices:
        note = translated(device.kind if device.usable else device.why_not)
        chosen_one = options.device == device.index
        name = f"executor.device.{device.index}"
        if row_button(ui, name, device.name, note, chosen_one, device.usable):
            options = replace(options, device=None if chosen_one else device.index)
    return [*actions, SetOptions(options)] if options != state.options else actions


def draft_models(state: AppState) -> list[LocalModel]:
    """Return the models that may draft for the model in use: smaller ones with as many tokens. A
    load compares the tokens themselves."""
    used = state.model
    if used is None or not used.continues:
        return []
    return [
        model
        for model in state.library.local or ()
        if model.vocabulary == used.vocabulary
        and 0 < model.parameters < used.parameters
        and model.runnable
        and not model.problem
    ]


def draw_draft_model(state: AppState, ui: Ui, options: EngineOptions) -> EngineOptions:
    """Draw the choice of a draft model; return the options as they are chosen."""
    offered = [(str(model.path), model.name) for model in draft_models(state)]
    chosen = options.draft_model
    if chosen and chosen not in dict(offered):
        offered.append((chosen, _name(state, chosen)))
    if not offered:
        return options
    text(ui, tr("Draft model"), style="small")
    rows = [("", tr(NONE)), *offered]
    width = imgui.get_content_region_avail().x
    found = picker(ui, "executor.draft", rows, chosen, width, tr(HINT))
    draft = state.executor.draft if state.executor else None
    if draft is not None:
        wrapped(ui, _memory(draft), "muted")
    return replace(options, draft_model=found)


def _name(state: AppState, path: str) -> str:
    draft = state.executor.draft if state.executor else None
    return draft.name if draft is not None else path


def _memory(draft: DraftModelInfo) -> str:
    return tr("{mode}: {weights} of weights and {cache} of cache").format(
        mode=draft.mode, weights=size(draft.weight_bytes), cache=size(draft.kv_bytes)
    )


def draw_learned_drafts(ui: Ui, options: EngineOptions) -> EngineOptions:
    """Draw the switch of learned drafts; return the options as they are chosen."""
    text(ui, tr("Drafts learned from answers"), style="small")
    hints = [tr(words) for words in HINTS.values()]
    labels, before = tr_labels(LEARNING), options.learned_drafts
    chosen = chooser(ui, "executor.learned", labels, before, hints)
    wrapped(ui, tr(HINTS[chosen]))
    return replace(options, learned_drafts=chosen)


def draw_learned(state: AppState, ui: Ui) -> list[Action]:
    """Draw how much was learned and the button that deletes it; nothing before the engine has told
    it."""
    learned = state.learned_drafts
    if learned is None:
        return []
    if not learned.answers and not learned.disk_bytes:
        wrapped(ui, tr(NOTHING), "faint")
        return []
    words = learned_words(learned)
    side = ui.u(6)
    top, right = imgui.get_cursor_pos_y(), ui.right(side)
    imgui.set_cursor_pos_y(top + (side - ui.theme.size("small")) / 2)
    text(ui, words, "muted", "small")
    ui.mark("executor.learned.used")
    imgui.same_line(right)
    imgui.set_cursor_pos_y(top)
    name, hint = "executor.learned.delete", tr(DELETE_HINT)
    if icon_button(ui, name, ICON_TRASH, hint, side=side, style="small"):
        return [ForgetLearned()]
    return []


def learned_words(learned: DraftsLearned) -> str:
    """Return how many answers were learned of the model in use, and how much of all models is on
    disk."""
    parts = []
    if learned.answers:
        many = trn("{n:,} answer learned", "{n:,} answers learned", learned.answers)
        parts.append(many.format(n=learned.answers))
    if learned.disk_bytes:
        parts.append(tr("{size} on disk").format(size=size(learned.disk_bytes)))
    return "  ·  ".join(parts)
