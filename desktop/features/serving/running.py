"""The panel while the server is on: its addresses, its key, what it answers, and the switch."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages import ServedRequest, ServingStatus
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import OpenLink
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.serving.model import (
    CancelServed,
    HideKey,
    RenewKey,
    SwitchServing,
)
from llm_lite.desktop.features.serving.state import ServingState, in_order
from llm_lite.desktop.language.incoming import fit_line
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.language.units import percent, rate, tokens
from llm_lite.desktop.widgets.icons import (
    ICON_CHECK,
    ICON_CLOSE,
    ICON_COPY,
    ICON_LOCK,
    ICON_WARNING,
)
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import (
    button,
    facts,
    fit,
    icon_button,
    labelled,
    meter,
    text,
    tip,
    wrapped,
)

CACHE_HINT = mark(
    "Memory for what requests read and write, in pages. Pages of ended requests stay for later "
    "ones that begin alike, until others need them."
)


MOST_SHOWN = 10
LONGEST_CLIENT = 120  # characters
NEW_KEY = mark("This is the only time that the key is shown. Give it to the programs that may ask.")
RENEW_HINT = mark(
    "Programs with the old key are refused from then on, and running answers end, as the server "
    "starts again"
)
NO_MODEL = mark("No model is loaded.")
COPIED_SECONDS = 2.0
MOST_ADDRESSES = 4
PLACEHOLDER = "YOUR_KEY"
LONGEST_NAME = 80  # characters


class Copied(Struct):
    """The text that was copied last."""

    name: str = ""  # of its button
    at: float = 0.0  # seconds of the window's clock


def draw_running(state: AppState, ui: Ui) -> list[Action]:
    serving = state.serving
    actions = _draw_switch(state, ui)
    actions += _draw_addresses(serving, ui)
    actions += _draw_key(serving, ui)
    _draw_example(serving, ui)
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    actions += draw_requests(serving, ui)
    draw_totals(serving, ui)
    return actions


def _draw_switch(state: AppState, ui: Ui) -> list[Action]:
    """Draw what answers, and the button that ends it."""
    label = tr("Stop serving")
    width = imgui.calc_text_size(label).x + ui.u(6)
    right = ui.right(width)
    imgui.align_text_to_frame_padding()
    ready = state.model is not None and state.serving.answers
    with ui.font(style="small"), ui.colored(text="muted" if ready else "warning"):
        words = ready_words(state)
        imgui.text_unformatted(fit(words, right - imgui.get_cursor_pos_x() - ui.u(2)))
        tip(ui, words)
    imgui.same_line(right)
    return [SwitchServing(False)] if button(ui, "serving.off", label, width=width) else []


def ready_words(state: AppState) -> str:
    """Tell which model answers, or why none does."""
    if state.model is None:
        return f"{ICON_WARNING}  {tr(NO_MODEL)}"
    if not state.serving.answers:
        return f"{ICON_WARNING}  {tr('Not ready for requests yet.')}"
    # The chat may have a model elsewhere: it is the one here that is served.
    name = fit_line(state.serving.status.model, LONGEST_NAME) or state.model.name
    return tr("{model} answers.").format(model=name)


def _draw_addresses(serving: ServingState, ui: Ui) -> list[Action]:
    text(ui, tr("Address"), style="small")
    _draw_copied(ui, "serving.address", serving.address, "body")
    for number, address in enumerate(serving.others[:MOST_ADDRESSES]):
        if number == 0:
            text(ui, tr("From other machines"), style="small")
        _draw_copied(ui, f"serving.other.{number}", address, "body")
    if button(ui, "serving.page", tr("Open the page"), hint=tr("A chat in the browser")):
        return [OpenLink(serving.address)]
    imgui.same_line()
    base = f"{serving.address}/v1"
    hint = tr("{address}, as clients of OpenAI's protocol want it").format(address=base)
    if button(ui, "serving.base", tr("Copy as base URL"), ICON_COPY, hint):
        _copy(ui, "serving.base", base)
    if _was_copied(ui, "serving.base"):
        imgui.same_line(0, ui.u(2))
        imgui.align_text_to_frame_padding()
        text(ui, ICON_CHECK, "link", "small")
    return []


def _draw_key(serving: ServingState, ui: Ui) -> list[Action]:
    if not serving.key_end:
        return []
    text(ui, tr("API key"), style="small")
    if serving.fresh_key:
        _draw_copied(ui, "serving.fresh", serving.fresh_key, "small")
        wrapped(ui, tr(NEW_KEY), "warning")
        return [HideKey()] if button(ui, "serving.seen", tr("Copied")) else []
    imgui.align_text_to_frame_padding()
    with ui.font("mono", "small"), ui.colored(text="muted"):
        imgui.text_unformatted(f"{ICON_LOCK}  …{serving.key_end}")
    label = tr("New key")
    imgui.same_line(0, ui.u(3))
    return [RenewKey()] if button(ui, "serving.renew", label, hint=tr(RENEW_HINT)) else []


def curl_of(serving: ServingState) -> str:
    """Return a request for a shell, on one line."""
    body = '{"messages": [{"role": "user", "content": "Hello"}]}'
    parts = ["curl", f"{serving.address}/v1/chat/completions"]
    parts += ["-H", "'Content-Type: application/json'"]
    if serving.key_end:
        key = serving.fresh_key or PLACEHOLDER
        parts += ["-H", f"'Authorization: Bearer {key}'"]
    return " ".join([*parts, "-d", f"'{body}'"])


def _draw_example(serving: ServingState, ui: Ui) -> None:
    text(ui, tr("Try it in a terminal"), style="small")
    _draw_copied(ui, "serving.curl", curl_of(serving), "small")


def _draw_copied(ui: Ui, name: str, words: str, style: str) -> None:
    """Draw a line on a ground of its own, and a button that copies all of it."""
    side, pad = ui.u(7), ui.u(2)
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    width = imgui.get_content_region_avail().x
    end = ImVec2(at.x + width, at.y + side)
    draw.add_rect_filled(at, end, ui.color("hover"), ui.u(1.5))
    size = ui.theme.size(style)
    with ui.font("mono", style):
        shown = fit(words, width - side - pad * 2)
        spot = ImVec2(at.x + pad, round(at.y + (side - size) / 2))
        draw.add_text(spot, ui.color("text"), shown)
    imgui.set_cursor_screen_pos(ImVec2(end.x - side, at.y))
    done = _was_copied(ui, name)
    icon, color = (ICON_CHECK, "link") if done else (ICON_COPY, "muted")
    if icon_button(ui, name, icon, tr("Copy"), side=side, color=color):
        _copy(ui, name, words)


def _copy(ui: Ui, name: str, words: str) -> None:
    imgui.set_clipboard_text(words)
    copied = ui.local(Copied)
    copied.name, copied.at = name, ui.now
    ui.redraw_in(COPIED_SECONDS)


def _was_copied(ui: Ui, name: str) -> bool:
    copied = ui.local(Copied)
    return copied.name == name and ui.now - copied.at < COPIED_SECONDS


def draw_requests(serving: ServingState, ui: Ui) -> list[Action]:
    text(ui, tr("Requests"), bold=True)
    imgui.same_line(0, ui.u(2))
    text(ui, counted(serving), "muted", "small")
    ui.mark("serving.requests")
    shown = in_order(serving.status.requests)
    if not shown:
        wrapped(ui, tr("No requests at the moment."))
        return []
    actions: list[Action] = []
    for request in shown[:MOST_SHOWN]:
        actions += _draw_request(serving, request, ui)
    more = len(shown) - MOST_SHOWN
    if more > 0:
        wrapped(ui, trn("and {n} more", "and {n} more", more).format(n=more))
    return actions


def counted(serving: ServingState) -> str:
    """Tell how many requests run and wait, and how fast they are together."""
    running, waiting = len(serving.running), len(serving.waiting)
    parts = [tr("{n} of {most} concurrent").format(n=running, most=serving.status.parallel)]
    if waiting:
        parts.append(trn("{n} waits", "{n} wait", waiting).format(n=waiting))
    if serving.rate > 0:
        parts.append(f"{rate(serving.rate)} tok/s")
    return "  ·  ".join(parts)


def progress_of(serving: ServingState, request: ServedRequest) -> str:
    """Tell in words how far a request is."""
    seconds = f"{request.seconds:.0f} s"
    if request.number in serving.cancelling:
        return tr("ends")
    if request.waiting:
        return f"{tr('waits')}  ·  {seconds}"
    if not request.new_tokens:
        whole = request.prompt_tokens
        share = f"{min(request.prefilled, whole):,} / {whole:,}" if whole else "–"
        return f"{tr('reads its prompt')}  ·  {share}  ·  {seconds}"
    speed = serving.rate_of(request.number)
    parts = [tokens(request.new_tokens), *([f"{rate(speed)} tok/s"] if speed else []), seconds]
    return "  ·  ".join(parts)


def _draw_request(serving: ServingState, request: ServedRequest, ui: Ui) -> list[Action]:
    """Draw two lines: the client, and how far it is; the button that ends it at the right."""
    name, side = f"serving.request.{request.number}", ui.u(6)
    small, gap = ui.theme.size("small"), ui.u(1)
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    width, height = imgui.get_content_region_avail().x, small * 2 + gap * 3
    room = width - side - ui.u(2)
    who = fit_line(request.client, LONGEST_CLIENT) or tr("A client")
    with ui.font(style="small"):
        draw.add_text(ImVec2(at.x, at.y + gap), ui.color("text"), fit(who, room))
        below = ImVec2(at.x, at.y + small + gap * 2)
        draw.add_text(below, ui.color("muted"), fit(progress_of(serving, request), room))
    imgui.set_cursor_screen_pos(ImVec2(at.x + width - side, at.y + (height - side) / 2))
    imgui.begin_disabled(request.number in serving.cancelling)
    hint = tr("End this request")
    ended = icon_button(ui, f"{name}.cancel", ICON_CLOSE, hint, side=side, style="small")
    imgui.end_disabled()
    imgui.set_cursor_screen_pos(ImVec2(at.x, at.y + height))
    whole = request.prompt_tokens
    if not request.waiting and not request.new_tokens and whole:
        meter(ui, request.prefilled / whole, width, ui.u(0.75))
    imgui.dummy(ImVec2(width, 0))
    ui.rects[name] = (at.x, at.y, at.x + width, at.y + height)
    return [CancelServed(request.number)] if ended else []


def draw_totals(serving: ServingState, ui: Ui) -> None:
    status = serving.status
    if status.pages:
        _draw_cache(status, ui)
    if not any((status.finished, status.cancelled, status.failed, status.refused)):
        return
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    facts(ui, "serving.totals", rows(status))


def rows(status: ServingStatus) -> list[tuple[str, str, str]]:
    """Return the name, value and meaning of each total."""
    ended = [
        (status.finished, tr("answered")),
        (status.cancelled, tr("cancelled")),
        (status.failed, tr("failed")),
        (status.refused, tr("refused")),
    ]
    counts = "  ·  ".join(f"{count:,} {words}" for count, words in ended if count)
    reused = status.cached_tokens / status.prompt_tokens if status.prompt_tokens else 0.0
    prompts, answers = (
        tr("{n:,} tokens").format(n=count) for count in (status.prompt_tokens, status.new_tokens)
    )
    share = tr("{share} from the cache").format(share=percent(reused))
    return [
        (tr("Requests"), counts, tr("A request is refused while too many others wait.")),
        (tr("Prompts"), f"{prompts}  ·  {share}", tr("Tokens of all prompts.")),
        (tr("Answers"), answers, tr("Tokens of all answers.")),
    ]


def _draw_cache(status: ServingStatus, ui: Ui) -> None:
    """Draw one bar: what running requests hold, and behind it what is kept of ended ones."""
    words = tr("{used} in use, {kept} kept, of {pages} pages").format(
        used=f"{status.pages_used:,}", kept=f"{status.pages_kept:,}", pages=f"{status.pages:,}"
    )
    labelled(ui, tr("Cache"), words, tr(CACHE_HINT))
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    width, height = imgui.get_content_region_avail().x, ui.u(1.5)
    radius, used = height / 2, min(1.0, status.pages_used / status.pages)
    held = min(1.0, (status.pages_used + status.pages_kept) / status.pages)
    end = ImVec2(at.x + width, at.y + height)
    draw.add_rect_filled(at, end, ui.color("pressed"), radius)
    for share, color, alpha in ((held, "accent", 0.4), (used, "accent", 1.0)):
        if share > 0:
            filled = ImVec2(at.x + max(width * share, height), end.y)
            draw.add_rect_filled(at, filled, ui.color(color, alpha), radius)
    imgui.dummy(ImVec2(width, height))
    ui.mark("serving.cache")
