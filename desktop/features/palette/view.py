"""The command palette, one input over everything and below it what it finds; and the panel of all
keys, which can be searched."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.attention.state import Head
from llm_lite.desktop.features.commands.keys import keys_of, run
from llm_lite.desktop.features.commands.keys import shown as shown_keys
from llm_lite.desktop.features.commands.settings import SETTINGS, NamedSetting
from llm_lite.desktop.features.commands.table import COMMANDS, GROUPS, PLACES, UserCommand
from llm_lite.desktop.features.feature import View
from llm_lite.desktop.features.history.model import OpenConversation
from llm_lite.desktop.features.history.state import ConversationRow
from llm_lite.desktop.features.layouts.view import show_view
from llm_lite.desktop.features.palette.model import (
    Match,
    NoteChoice,
    SearchPalette,
    also_called,
    fold,
    match,
)
from llm_lite.desktop.features.presets.model import ChoosePreset
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import OpenModel
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.registry import VIEWS
from llm_lite.desktop.features.sampling.view import SamplingControls
from llm_lite.desktop.language.incoming import shown_path
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.language.units import short_name
from llm_lite.desktop.widgets.icons import ICON_SEARCH
from llm_lite.desktop.widgets.keycaps import draw_keys, keys_width
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, popover, wrapped

CONVERSATIONS = 200  # of the list that are matched here; the history searches all of them
HEADS = 16  # listed for a layer
# "L12 H3", "layer 12 head 3", "head 12.3", "12.3"
_HEAD = re.compile(
    r"(?:(?P<named>head)\s*|l(?:ayer)?\s*)?(?P<layer>\d{1,3})"
    r"(?:(?:\s*[.,:/]\s*|\s+|\s*(?=h))(?:h(?:ead)?\s*)?(?P<head>\d{1,3}))?"
)
INSPECTOR = ("upper right", "lower right")  # places of the views that can be gone to
SHOWN = 60  # results
NEWEST = 6  # conversations that are listed before anything is typed
RECENT = 25.0  # points for what was chosen lately
IN_TEXT = 20.0  # points of a conversation in which the words stand, but not in its title
POPUP = "palette"
WIDTH, TOP = 150.0, 0.11  # in spacing units; share of the window above it
LINES = 11  # rows that are seen at once
LONGEST = 400  # characters of a query
KEY = imgui.Key
STILL = imgui.WindowFlags_.no_move | imgui.WindowFlags_.no_nav_inputs  # arrows are ours
SHORTCUTS = "shortcuts"  # the panel of all keys
LONGEST_SEARCH = 200  # characters
SHORTCUTS_WIDTH, SHORTCUTS_TOP = 116.0, 0.06  # in spacing units; share of the window above it
ABOVE_LIST = 26.0  # spacing units of title, search and padding


class Item(Struct, frozen=True):
    """`key` is what a choice is remembered by."""

    key: str
    group: str
    title: str
    run: Callable[[AppState, Ui], list[Action]]
    chord: str = ""
    words: str = ""  # by which it is found too
    note: str = ""  # below the title


class Finding(Struct, frozen=True):
    item: Item
    at: tuple[int, ...] = ()  # places of the letters that match
    heading: str = ""  # above it


class Held(Struct):
    """The query, what is found for it, and the row that is chosen."""

    query: str = ""
    at: int = 0
    rows: list[Finding] = field(default_factory=list)
    made_of: object = None
    scroll: bool = False  # the chosen row is to be in sight
    field: int = 0  # the input is another one each time
    closes: bool = False  # its keys were pressed again


class OpenPalette(Struct):
    """The palette that was opened last."""

    held: Held = field(default_factory=Held)


def draw(state: AppState, ui: Ui) -> list[Action]:
    actions: list[Action] = []
    if ui.opened == POPUP:
        ui.opened = ""
        if imgui.is_popup_open(POPUP):  # the same keys close it
            ui.local(OpenPalette).held.closes = True
        else:
            opened = ui.local(OpenPalette)
            opened.held = Held(field=opened.held.field + 1)
            imgui.open_popup(POPUP)
            actions.append(SearchPalette(""))
    size, edge = imgui.get_main_viewport().size, ui.u(4)
    width = min(ui.u(WIDTH), size.x - 2 * edge)
    at = ImVec2(round((size.x - width) / 2), round(max(edge, size.y * TOP)))
    imgui.set_next_window_pos(at, imgui.Cond_.always)
    imgui.set_next_window_size(ImVec2(width, 0))
    spaces = ui.styled(window_padding=(0.0, 0.0), item_spacing=(0.0, 0.0))
    with spaces, ui.colored(border="faint"):  # it lies over everything
        shown = imgui.begin_popup(POPUP, STILL)
    if not shown:
        return actions
    try:
        return actions + _draw_inside(state, ui, width, size.y - at.y - edge)
    finally:
        low, size = imgui.get_window_pos(), imgui.get_window_size()
        ui.rects[POPUP] = (low.x, low.y, low.x + size.x, low.y + size.y)
        imgui.end_popup()


def _draw_inside(state: AppState, ui: Ui, width: float, room: float) -> list[Action]:
    held = ui.local(OpenPalette).held
    closes, held.closes = held.closes, False
    if imgui.is_key_pressed(KEY.escape, False) or closes:
        return _close(ui)
    asked = _draw_input(ui, held, width)
    _refresh(state, ui, held)
    _move(ui, held, room)
    chosen = _draw_rows(ui, held, width, room)
    if imgui.is_key_pressed(KEY.enter, False) or imgui.is_key_pressed(KEY.keypad_enter, False):
        chosen = held.rows[held.at] if held.rows else None
    if chosen is None:
        return asked
    imgui.close_current_popup()
    return [*chosen.item.run(state, ui), NoteChoice(chosen.item.key)]


def _close(ui: Ui) -> list[Action]:
    imgui.close_current_popup()
    ui.request("input")
    return [SearchPalette("")]


def _draw_input(ui: Ui, held: Held, width: float) -> list[Action]:
    height, at = ui.u(13), imgui.get_cursor_screen_pos()
    draw, size = imgui.get_window_draw_list(), ui.theme.size("title")
    spot = ImVec2(at.x + ui.u(4), round(at.y + (height - size) / 2))
    draw.add_text(ui.fonts["regular"], size, spot, ui.color("muted"), ICON_SEARCH)
    left = ui.u(4) + size + ui.u(1)
    imgui.set_cursor_screen_pos(ImVec2(at.x + left, at.y))
    imgui.set_next_item_width(width - left - ui.u(3))
    if imgui.is_window_appearing():
        imgui.set_keyboard_focus_here()
    clear = dict.fromkeys(("frame_bg", "frame_bg_hovered", "frame_bg_active", "nav_cursor"), "-")
    with (
        ui.colored(**clear),
        ui.font(style="title"),
        ui.styled(frame_padding=(ui.u(1.5), (height - size) / 2), frame_border_size=0.0),
    ):
        hint = tr("Find a command, a setting, a conversation, a head")
        _, query = imgui.input_text_with_hint(f"##palette.{held.field}", hint, held.query)
    ui.mark(f"{POPUP}.input")
    bottom = at.y + height
    draw.add_rect_filled(
        ImVec2(at.x, bottom), ImVec2(at.x + width, bottom + ui.u(0.25)), ui.color("border")
    )
    imgui.set_cursor_screen_pos(ImVec2(at.x, bottom + ui.u(0.25)))
    query = query[:LONGEST]
    if query == held.query:
        return []
    held.query, held.at, held.scroll = query, 0, True
    return [SearchPalette(query)]


def _refresh(state: AppState, ui: Ui, held: Held) -> None:
    """Find again when the query, or what there is to be found, has become another."""
    known = state.palette
    made_of = (
        held.query, known.found if known.found_for == held.query else (), state.busy,
        state.history.rows, state.catalogue, state.recent, state.presets, state.model, state.load,
        len(state.messages), state.quantization.work is None, state.layouts, state.editing,
    )  # fmt: skip
    old = held.made_of
    if isinstance(old, tuple) and all(a is b or a == b for a, b in zip(old, made_of, strict=True)):
        return
    chosen = held.rows[held.at].item.key if held.rows else ""
    same = isinstance(old, tuple) and old[0] == held.query and held.at > 0
    held.rows, held.made_of = found(held.query, state, ui), made_of
    keys = [row.item.key for row in held.rows]
    held.at = keys.index(chosen) if same and chosen in keys else 0


def _move(ui: Ui, held: Held, room: float) -> None:
    """Move the chosen row with the keys."""
    if not held.rows:
        return
    last, page = len(held.rows) - 1, LINES - 1
    at = held.at
    for key, to in (
        (KEY.down_arrow, at + 1 if at < last else 0),
        (KEY.up_arrow, at - 1 if at > 0 else last),
        (KEY.page_down, min(last, at + page)),
        (KEY.page_up, max(0, at - page)),
    ):
        if imgui.is_key_pressed(key):
            held.at, held.scroll = to, True


def _draw_rows(ui: Ui, held: Held, width: float, room: float) -> Finding | None:
    """Draw the rows, and return the one that was clicked."""
    line, head = ui.u(9.5), ui.u(8)
    tops, y = [], ui.u(1.5)
    for row in held.rows:
        y += head if row.heading else 0.0
        tops.append(y)
        y += line
    content = y + ui.u(1.5)
    room -= ui.u(14)
    height = min(content, ui.u(1.5) + LINES * line, max(room, line))
    if not held.rows:
        _draw_nothing(ui, width)
        return None
    flags = imgui.WindowFlags_.no_saved_settings | imgui.WindowFlags_.no_nav_inputs
    imgui.begin_child("rows", ImVec2(width, round(height)), 0, flags)
    try:
        if held.scroll:
            _into_sight(held, tops, line, head, height, content)
        return _draw_seen(ui, held, tops, width, line, head, height, content)
    finally:
        imgui.end_child()


def _into_sight(
    held: Held, tops: list[float], line: float, head: float, height: float, content: float
) -> None:
    held.scroll = False
    top, low = tops[held.at], imgui.get_scroll_y()
    above = head if held.rows[held.at].heading else 0.0
    if held.at == 0:
        imgui.set_scroll_y(0.0)
    elif top - above < low:
        imgui.set_scroll_y(top - above)
    elif top + line > low + height:
        imgui.set_scroll_y(min(top + line - height + line / 4, content - height))


def _draw_seen(
    ui: Ui, held: Held, tops: list[float], width: float, line: float, head: float,
    height: float, content: float,
) -> Finding | None:  # fmt: skip
    chosen: Finding | None = None
    low = imgui.get_scroll_y()
    start, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    moved = imgui.get_io().mouse_delta
    for number, row in enumerate(held.rows):
        top = tops[number]
        if top + line < low or top - head > low + height:
            continue
        y = start.y + top
        if row.heading:
            small = ui.theme.size("small")
            spot = ImVec2(start.x + ui.u(4), round(y - small - ui.u(1)))
            draw.add_text(ui.fonts["bold"], small, spot, ui.color("muted"), row.heading)
        rect = (start.x + ui.u(1.5), y, start.x + width - ui.u(1.5), y + line)
        ui.rects[f"{POPUP}.{number}"] = rect
        if ui.at_pointer(rect) and imgui.is_window_hovered():
            if moved.x or moved.y:
                held.at = number
            if imgui.is_mouse_clicked(0):
                chosen = row
        _draw_row(ui, row, rect, number == held.at)
    imgui.dummy(ImVec2(1, content))
    return chosen


def _draw_row(ui: Ui, row: Finding, rect: tuple[float, float, float, float], chosen: bool) -> None:
    """Draw group, title with the letters that match, note and chord."""
    draw, item = imgui.get_window_draw_list(), row.item
    x0, y0, x1, y1 = rect
    if chosen:
        draw.add_rect_filled(ImVec2(x0, y0), ImVec2(x1, y1), ui.color("accent_soft"), ui.u(1.5))
    small, body = ui.theme.size("small"), ui.theme.text
    right = x1 - ui.u(2.5)
    if item.chord:
        right -= keys_width(ui, item.chord)
        draw_keys(ui, item.chord, ImVec2(right, y0), y1 - y0)
        right -= ui.u(3)
    group = ui.u(27)
    middle = (y0 + y1) / 2
    with ui.font(style="small"):
        words = fit(item.group, group - ui.u(2))
        spot = ImVec2(x0 + ui.u(2.5), round(middle - small / 2))
        draw.add_text(spot, ui.color("muted"), words)
    x, y = x0 + ui.u(2.5) + group, round(middle - body / 2)
    x = _draw_title(ui, row, ImVec2(x, y), max(right - x, 1.0))
    if item.note and right - x > ui.u(20):
        with ui.font(style="small"):
            x += ui.u(3)
            words = fit(item.note, right - x)
            draw.add_text(ImVec2(x, round(middle - small / 2)), ui.color("muted"), words)


def _draw_title(ui: Ui, row: Finding, at: ImVec2, room: float) -> float:
    """Draw a title and return where it ends. Letters that match are bold, in the accent's colour
    for text."""
    draw, x = imgui.get_window_draw_list(), at.x
    with ui.font():
        title = fit(row.item.title, room)
    marked = {place for place in row.at if place < len(title)}
    begin = 0
    while begin < len(title):
        hit, end = begin in marked, begin + 1
        while end < len(title) and (end in marked) == hit:
            end += 1
        part = title[begin:end]
        with ui.font("bold" if hit else "regular"):
            color = ui.color("link" if hit else "text")
            draw.add_text(ImVec2(x, at.y), color, part)
            x += imgui.calc_text_size(part).x
        begin = end
    return x


def _draw_nothing(ui: Ui, width: float) -> None:
    at, height, body = imgui.get_cursor_screen_pos(), ui.u(14), ui.theme.text
    words = tr("Nothing found.")
    spot = ImVec2(at.x + ui.u(4), round(at.y + (height - body) / 2))
    imgui.get_window_draw_list().add_text(spot, ui.color("muted"), words)
    imgui.dummy(ImVec2(width, height))


def found(query: str, state: AppState, ui: Ui) -> list[Finding]:
    query = fold(query).strip()
    return _matching(query, state, ui) if query else _offered(state, ui)


def _offered(state: AppState, ui: Ui) -> list[Finding]:
    """List what is offered before anything is typed: recent choices, then conversations, then all
    commands."""
    known = {item.key: item for item in fixed(state, ui)}
    talks = {item.key: item for item in newest(state)}
    recent = [_recent(key, {**known, **talks}, state) for key in state.palette.recent]
    first = [item for item in recent if item is not None]
    taken = {item.key for item in first}
    latest = [item for item in talks.values() if item.key not in taken][:NEWEST]
    rest = [item for item in known.values() if item.key not in taken]
    rows = _under(tr("Recent choices"), first) + _under(tr("Newest conversations"), latest)
    return rows + _under(tr("All commands"), rest)


def _recent(key: str, known: dict[str, Item], state: AppState) -> Item | None:
    if key.startswith("head:"):
        return next(iter(heads(key.removeprefix("head:"), state)), None)
    return known.get(key)


def _under(heading: str, of: list[Item]) -> list[Finding]:
    return [Finding(item, heading="" if number else heading) for number, item in enumerate(of)]


def _matching(query: str, state: AppState, ui: Ui) -> list[Finding]:
    recent = {key: RECENT - place for place, key in enumerate(state.palette.recent)}
    scored: dict[str, tuple[float, Finding]] = {}

    def add(item: Item, fits: Match | None, plus: float = 0.0) -> None:
        if fits is not None and item.key not in scored:
            points = fits.score + plus + recent.get(item.key, 0.0)
            scored[item.key] = (points, Finding(item, fits.at))

    for item in heads(query, state):
        add(item, Match(200.0))
    for item in fixed(state, ui):
        add(item, match(query, item.title, item.words))
    for item in conversations(state):
        add(item, match(query, item.title), -5.0)
    if state.palette.found_for:
        for item in found_in_history(state):
            add(item, match(query, item.title) or Match(IN_TEXT), -5.0)
    ordered = sorted(scored.values(), key=lambda one: -one[0])
    return [row for _, row in ordered[:SHOWN]]


def fixed(state: AppState, ui: Ui) -> list[Item]:
    """All but conversations and heads; what cannot be done now is left out."""
    found = [_of_command(one) for one in COMMANDS if one.run is not None and one.when(state, ui)]
    found += [_of_view(view) for view in VIEWS if view.place in INSPECTOR]
    found += [_of_setting(setting) for setting in SETTINGS]
    return [*found, *_models(state), *_presets(state)]


def conversations(state: AppState) -> Iterator[Item]:
    """List conversations that the list has, the newest first."""
    for row in _listed(state):
        yield _of_conversation(row.id, row.title, None, "")


def _listed(state: AppState) -> Sequence[ConversationRow]:
    return state.history.rows[:CONVERSATIONS]


def newest(state: AppState) -> Iterator[Item]:
    """List the same conversations from the newest, without regard to which are pinned."""
    for row in sorted(_listed(state), key=lambda row: row.updated, reverse=True):
        yield _of_conversation(row.id, row.title, None, "")


def found_in_history(state: AppState) -> Iterator[Item]:
    """List conversations that the history has found for the query."""
    for found in state.palette.found:
        note = "" if found.message is None else " ".join(found.snippet.split())
        yield _of_conversation(found.conversation, found.title, found.message, note)


def heads(query: str, state: AppState) -> list[Item]:
    """List the heads of the model that the query names."""
    named = _HEAD.fullmatch(query.strip())
    model = state.model
    if named is None or model is None:
        return []
    layer = int(named["layer"])
    if layer not in model.attending_layers:
        return []
    if named["head"] is None:
        return [_of_head((layer, head)) for head in range(min(model.heads, HEADS))]
    head = int(named["head"])
    return [_of_head((layer, head))] if head < model.heads else []


def _of_command(command: UserCommand) -> Item:
    return Item(
        f"command:{command.name}",
        tr(GROUPS[command.group]),
        tr(command.title),
        lambda state, ui: run(command, state, ui),
        keys_of(command.name),
        also_called(command.title, command.words),
    )


def _of_setting(setting: NamedSetting) -> Item:
    def go(state: AppState, ui: Ui) -> list[Action]:
        if setting.unfold:
            ui.local(SamplingControls).unfold = setting.unfold
        ui.show_popover(setting.popover, setting.control)
        return []

    words = also_called(setting.title, setting.words)
    return Item(setting.key, tr("Setting"), tr(setting.title), go, words=words)


def _of_view(view: View) -> Item:
    def show(state: AppState, ui: Ui) -> list[Action]:
        return show_view(view.name, state, ui)

    words = also_called(view.title, "panel view")
    return Item(f"panel:{view.name}", tr("Panel"), tr(view.title), show, words=words)


def _of_conversation(number: int, title: str, message: int | None, note: str) -> Item:
    return Item(
        f"conversation:{number}",
        tr("Conversation"),
        title or tr("New conversation"),
        lambda state, ui: [OpenConversation(number, message)],
        note=note,
    )


def _of_head(head: Head) -> Item:
    layer, number = head

    def lock(state: AppState, ui: Ui) -> list[Action]:
        shown = show_view("head", state, ui)
        choice = state.attention
        if head not in choice.locked:
            choice = choice.toggled(head)
        return [*shown, SetAttention(replace(choice, layer=None, group=None))]

    title = tr("Lock head L{layer} H{head}").format(layer=layer, head=number)
    return Item(f"head:{layer}.{number}", tr("Head"), title, lock)


def _models(state: AppState) -> Iterator[Item]:
    known = set()
    for entry in state.catalogue:
        if entry.path:
            known.add(entry.path)
            yield _of_model(entry.source, entry.title, entry.path)
    for path in state.recent:
        if path not in known:
            yield _of_model(path, short_name(path), shown_path(path))


def _of_model(source: str, title: str, note: str) -> Item:
    words = f"model load open {fold(note)}"
    return Item(
        f"model:{source}", tr("Model"), title, lambda s, u: [OpenModel(source)], "", words, note
    )


def _presets(state: AppState) -> Iterator[Item]:
    for name in state.presets:
        yield _of_preset(name)


def _of_preset(name: str) -> Item:
    return Item(
        f"preset:{name}", tr("Preset"), name, lambda s, u: [ChoosePreset(name)], words="preset"
    )


class ShortcutsInput(Struct):
    query: str = ""


def draw_shortcuts(state: AppState, ui: Ui) -> list[Action]:
    size = imgui.get_main_viewport().size
    width = min(ui.u(SHORTCUTS_WIDTH), size.x - ui.u(8))
    at = ImVec2((size.x - width) / 2, max(ui.u(2), size.y * SHORTCUTS_TOP))
    above = at.y + ui.u(ABOVE_LIST)
    with popover(ui, SHORTCUTS, tr("Keyboard shortcuts"), at, width) as shown:
        if shown:
            if imgui.is_window_appearing():
                imgui.set_keyboard_focus_here()
            _draw_shortcut_list(ui, max(size.y - ui.status_height - above, ui.u(20)))
    return []


def _draw_shortcut_list(ui: Ui, height: float) -> None:
    """Draw a search, and below it keys in groups, in `height` pixels."""
    imgui.set_next_item_width(-1)
    kept = ui.local(ShortcutsInput)
    hint = tr("Search the shortcuts")
    _, query = imgui.input_text_with_hint(f"##{SHORTCUTS}.query", hint, kept.query)
    ui.mark(f"{SHORTCUTS}.query")
    kept.query = query = query[:LONGEST_SEARCH]
    imgui.begin_child(
        f"{SHORTCUTS}.list", ImVec2(0, height), 0, imgui.WindowFlags_.no_saved_settings
    )
    found = matching_shortcuts(fold(query).strip())
    if not found:
        wrapped(ui, tr("No shortcut found."))
    heading = ""
    for command in found:
        group = tr(PLACES[command.place]) if command.place else tr(GROUPS[command.group])
        if group != heading:
            heading = group
            _draw_shortcut_heading(ui, heading)
        _draw_shortcut(ui, f"{SHORTCUTS}.{command.name}", command)
    imgui.end_child()


def matching_shortcuts(query: str) -> list[UserCommand]:
    """List commands with keys that match, in groups."""
    keyed = [command for command in COMMANDS if command.keys]
    if not query:
        return keyed
    return [command for command in keyed if _fits_shortcut(query, command)]


def _fits_shortcut(query: str, command: UserCommand) -> bool:
    keys = " ".join(fold(shown_keys(key)) for key in command.keys)
    words = f"{also_called(command.title, command.words)} {keys} {keys.replace('+', ' ')}"
    return match(query, tr(command.title), words) is not None


def _draw_shortcut_heading(ui: Ui, words: str) -> None:
    at, small, height = imgui.get_cursor_screen_pos(), ui.theme.size("small"), ui.u(8)
    spot = ImVec2(at.x, round(at.y + height - small - ui.u(0.75)))
    draw = imgui.get_window_draw_list()
    draw.add_text(ui.fonts["bold"], small, spot, ui.color("muted"), words)
    with ui.styled(item_spacing=(0.0, 0.0)):
        imgui.dummy(ImVec2(1, height))


def _draw_shortcut(ui: Ui, name: str, command: UserCommand) -> None:
    at, line = imgui.get_cursor_screen_pos(), ui.u(7)
    width = imgui.get_content_region_avail().x - ui.u(1)
    draw, small, x = imgui.get_window_draw_list(), ui.theme.size("small"), at.x + width
    shown = [shown_keys(key) for key in command.keys if "Keypad" not in key and "=" not in key]
    for number, keys in enumerate(reversed(shown)):
        if number:
            with ui.font(style="small"):
                word = tr("or")
                x -= imgui.calc_text_size(word).x + ui.u(1.5)
                y = round(at.y + (line - small) / 2)
                draw.add_text(ImVec2(x, y), ui.color("muted"), word)
                x -= ui.u(1.5)
        x -= keys_width(ui, keys)
        draw_keys(ui, keys, ImVec2(x, at.y), line)
    with ui.font(style="small"):
        words = fit(tr(command.title), x - at.x - ui.u(2))
        draw.add_text(ImVec2(at.x, round(at.y + (line - small) / 2)), ui.color("text"), words)
    with ui.styled(item_spacing=(0.0, 0.0)):
        imgui.dummy(ImVec2(max(width, 1.0), line))
    ui.mark(name)
