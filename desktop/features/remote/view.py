"""The panel that connects to a server: an address, a key, the models there, recent addresses; and
what is shown of such a model in the place of the local one's cache, gains and speed."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages.remote import ApiKey, HeldCache, RemoteModel, RemoteServer
from llm_lite.desktop.features.commands.fields import ADDRESS, ServerFields
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.remote.model import (
    ConnectModel,
    Disconnect,
    FindServer,
    ForgetAddress,
    ForgetServer,
)
from llm_lite.desktop.features.remote.state import Connection, RecentAddress
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.language.units import quantity, sentence
from llm_lite.desktop.widgets.controls import toggle
from llm_lite.desktop.widgets.icons import ICON_CLOSE, ICON_LINK, ICON_LOCK, ICON_POWER
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import (
    button,
    facts,
    help_mark,
    icon_button,
    meter,
    primary_button,
    row_button,
    text,
    wrapped,
)

PAGES_HINT = mark(
    "A server keeps keys and values in pages, for all that ask it. Pages of answers that have "
    "ended stay until others need them: what begins the same is not read again."
)
# Why something is not shown where the model is not a local one:
NO_ANSWER_YET = mark("The server reports its cache when an answer has ended.")
NO_CACHE = mark(
    "The keys and values of this conversation lie on that machine. The server does not "
    "report what its cache holds."
)
NO_GAINS = mark("Gains of heads are set where the model runs. OpenAI's protocol has none.")
NO_MODES = mark(
    "How weights are kept was chosen where the server was started. Here it can neither be changed "
    "nor measured."
)
NO_STEP_TIMES = mark(
    "Where the time of a step goes is measured in the engine of this program only."
)
NO_MEMORY = mark("The memory of this conversation lies on that machine, as its server was started.")
NO_EXECUTOR = mark("Device, weights and activations were chosen where the server was started.")
OFFERED_HERE = mark("A model of this machine shows it: disconnect, or open one.")
_KEY, _KEEPS = "remote.key", "remote.keeps"
EXAMPLE = "http://127.0.0.1:8000"
ABOUT = mark(
    "A server that speaks OpenAI's protocol answers the chat: vLLM, llama-server, LM Studio, or "
    "another llm-lite, on this machine or elsewhere. What is said is sent there."
)
KEEP = mark(
    "Write the key into the settings file, which then only you can read. Otherwise it is forgotten "
    "when the program ends."
)


class LastConnection(Struct):
    """The connection that was there in the last frame."""

    connection: Connection | None = None


def is_open(state: AppState, ui: Ui) -> bool:
    """Tell whether fields are shown, and not only the button."""
    remote = state.remote
    return bool(
        ui.local(ServerFields).shown or remote.requested_address or remote.found or remote.problem
    )


def draw_connect(state: AppState, ui: Ui) -> list[Action]:
    """Draw, in the panel of models, a button or the fields that it opens."""
    remote = state.remote
    last = ui.local(LastConnection)
    if last.connection is not remote.connection:  # what was wanted is done
        last.connection = remote.connection
        _close(ui)
    if not is_open(state, ui):
        hint = tr(ABOUT)
        if button(ui, "remote.connect", tr("Connect to a server"), ICON_LINK, hint):
            ui.local(ServerFields).shown = True
            ui.reaching = ADDRESS
        return []
    actions = _draw_title(ui)
    actions += _draw_fields(state, ui)
    if remote.problem:
        wrapped(ui, sentence(remote.problem), "error")
    if remote.found is not None:
        actions += _draw_found(ui, remote.found)
    elif remote.recent:
        actions += _draw_recent(state, ui, remote.recent)
    return actions


def _close(ui: Ui) -> None:
    fields = ui.local(ServerFields)
    fields.shown, fields.key = False, ""  # a key stays nowhere in sight
    if ui.reaching == ADDRESS:
        ui.reaching = ""


def _draw_title(ui: Ui) -> list[Action]:
    side = ui.u(6)
    imgui.align_text_to_frame_padding()
    text(ui, tr("Connect to a server"), bold=True)
    help_mark(ui, tr(ABOUT))
    imgui.same_line(ui.right(side))
    if icon_button(ui, "remote.close", ICON_CLOSE, tr("Close"), side=side, style="small"):
        _close(ui)
        return [ForgetServer()]
    return []


def _draw_fields(state: AppState, ui: Ui) -> list[Action]:
    asking, fields = bool(state.remote.requested_address), ui.local(ServerFields)
    enter = imgui.InputTextFlags_.enter_returns_true
    imgui.set_next_item_width(-1)
    entered, address = imgui.input_text_with_hint(
        "##remote.address", EXAMPLE, fields.address, enter
    )
    ui.mark(ADDRESS)
    if entered:  # Dear ImGui ends the input; an address that is refused is typed again
        ui.reaching = ADDRESS
    imgui.set_next_item_width(-1)
    secret = enter | imgui.InputTextFlags_.password
    typed, key = imgui.input_text_with_hint(
        "##remote.key", tr("Key, where the server wants one"), fields.key, secret
    )
    ui.mark(_KEY)
    fields.address, fields.key = address, key
    keeps = toggle(ui, _KEEPS, tr("Keep the key"), fields.keeps_key, tr(KEEP))
    fields.keeps_key = keeps
    label = tr("Cancel") if asking else tr("Connect")
    wide = max(imgui.calc_text_size(tr(word)).x for word in (_CANCEL, _CONNECT)) + ui.u(8)
    imgui.same_line(ui.right(wide))
    if asking:
        clicked = button(ui, "remote.cancel", label, width=wide)
        text(
            ui,
            tr("Asking {address}").format(address=state.remote.requested_address),
            "muted",
            "small",
        )
        return [ForgetServer()] if clicked else []
    ready = bool(address.strip())
    clicked = primary_button(ui, "remote.go", label, enabled=ready, width=wide)
    if ready and (clicked or entered or typed):
        return [FindServer(address.strip(), ApiKey(key.strip()) if key.strip() else None, keeps)]
    return []


_CANCEL, _CONNECT = mark("Cancel"), mark("Connect")


def _draw_found(ui: Ui, server: RemoteServer) -> list[Action]:
    """Draw the models of the server that was found; a click connects to one."""
    actions: list[Action] = []
    title = " ".join(part for part in (server.title, server.version) if part)
    text(ui, f"{title}  ·  {server.host}", "muted", "small")
    room = min(len(server.models), 6) * ui.u(13)
    imgui.begin_child("remote.models", ImVec2(0, room))
    for number, model in enumerate(server.models):
        if row_button(ui, f"remote.model.{number}", model.title, model_note(model)):
            actions.append(ConnectModel(model.name))
    imgui.end_child()
    return actions


def model_note(model: RemoteModel) -> str:
    """Return what the server reports of a model, in a line."""
    parts = []
    if model.parameters:
        parts.append(quantity(model.parameters))
    if model.weights:
        parts.append(model.weights)
    if model.context:
        parts.append(
            trn("{n:,} token of context", "{n:,} tokens of context", model.context).format(
                n=model.context
            )
        )
    if not model.loaded:
        parts.append(tr("loaded at the first request"))
    return "  ·  ".join(parts)


def _draw_recent(state: AppState, ui: Ui, recent: tuple[RecentAddress, ...]) -> list[Action]:
    actions: list[Action] = []
    text(ui, tr("Recent addresses"), "muted", "small")
    side = ui.u(6)
    for number, one in enumerate(recent):
        top = imgui.get_cursor_pos_y()
        name = f"remote.recent.{number}"
        label = one.address.partition("://")[2]
        if one.key:
            label = f"{label}  {ICON_LOCK}"
        here = state.remote.connection
        chosen = here is not None and here.server.address == one.address
        able = not state.remote.requested_address
        if row_button(ui, name, label, one.model, chosen, able, taken=side + ui.u(2)):
            actions.append(FindServer(one.address, model=one.model))
        below = imgui.get_cursor_pos_y()
        imgui.same_line(ui.right(side + ui.u(1)))
        imgui.set_cursor_pos_y(top + ui.u(2))
        hint = tr("Forget this address and its key")
        if icon_button(ui, f"{name}.forget", ICON_CLOSE, hint, side=side, style="small"):
            actions.append(ForgetAddress(one.address))
        imgui.set_cursor_pos_y(below)
    return actions


def draw_connection(state: AppState, ui: Ui, connection: Connection) -> list[Action]:
    """Draw the model there, as far as its server reports it, and the way back."""
    server, model = connection.server, connection.model
    text(ui, model.title, bold=True)
    unknown = tr("not reported")
    context = tr("{n:,} tokens").format(n=model.context) if model.context else unknown
    rows = [
        (tr("Computed by"), " ".join((server.title, server.version)).strip(), ""),
        (tr("Address"), server.host, ""),
        (tr("Architecture"), model.architecture or unknown, ""),
        (tr("Parameters"), quantity(model.parameters) if model.parameters else unknown, ""),
        (tr("Weights"), model.weights or unknown, ""),
        (tr("Context"), context, ""),
    ]
    facts(ui, "remote.facts", rows)
    able = not state.busy
    hint = tr("The model of this machine answers again")
    if button(ui, "remote.disconnect", tr("Disconnect"), ICON_POWER, hint, enabled=able):
        return [Disconnect()]
    return []


def draw_remote_cache(state: AppState, ui: Ui) -> None:
    """Draw the server's cache as far as it reports it."""
    connection = state.remote.connection
    assert connection is not None
    if connection.server.can_inspect:
        _draw_server(ui, connection)
        _draw_cache(state, ui)
    else:
        draw_unreported(state, ui, NO_CACHE)


def _draw_server(ui: Ui, connection: Connection) -> None:
    with ui.colored(text="accent"), ui.font(style="small"):
        imgui.text_unformatted(ICON_LINK)
    imgui.same_line(0, ui.u(1.5))
    text(ui, connection.where, style="small", bold=True)


def draw_unreported(state: AppState, ui: Ui, reason: str, *, offers_local: bool = True) -> None:
    """Draw the server's name, the reason why it shows nothing here, and that a local model shows
    it."""
    connection = state.remote.connection
    assert connection is not None
    _draw_server(ui, connection)
    wrapped(ui, tr(reason))
    if offers_local:
        imgui.dummy(ImVec2(0, ui.u(0.5)))
        wrapped(ui, tr(OFFERED_HERE), "faint")


def _draw_cache(state: AppState, ui: Ui) -> None:
    cache = state.remote.cache
    if cache is None:
        wrapped(ui, tr(NO_ANSWER_YET))
        return
    _draw_gauge(ui, cache)
    imgui.dummy(ImVec2(0, ui.u(1)))
    rows = [
        (tr("Used by answers"), _pages(cache, cache.pages_used), ""),
        (tr("Prefix cache"), _pages(cache, cache.pages_kept), tr(PAGES_HINT)),
        (tr("In all"), _pages(cache, cache.pages), ""),
        (tr("This answer"), tr("{n:,} tokens").format(n=cache.tokens), ""),
        (
            tr("Queries kept"),
            tr("from token {n:,} on").format(n=cache.first_query),
            tr("Maps can be made of these tokens and all that follow."),
        ),
    ]
    facts(ui, "remote.cache.facts", rows)
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    wrapped(ui, tr(PAGES_HINT), "faint")


def _pages(cache: HeldCache, count: int) -> str:
    words = tr("{pages:,} pages, {tokens:,} tokens")
    return words.format(pages=count, tokens=count * cache.page_tokens)


def _draw_gauge(ui: Ui, cache: HeldCache) -> None:
    share = (cache.pages_used + cache.pages_kept) / max(cache.pages, 1)
    words = tr("{share:.0%} of the server's cache is full").format(share=min(share, 1.0))
    text(ui, words, style="small", bold=True)
    meter(ui, share, imgui.get_content_region_avail().x, ui.u(1.5))
    ui.mark("remote.cache")
