"""Calls of an answer as cards, which ask if they have no result, and results as messages."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.messages import ToolCall
from llm_lite.core.tools.fences import SHOWN, result_as_code
from llm_lite.core.tools.json_values import pretty
from llm_lite.desktop.features.chat.reading import (
    ROUNDS,
    approval,
    calls_of,
    is_allowed,
    may_go_on,
    round_of,
    rounds,
    waiting,
)
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.selection.selecting import draw_page
from llm_lite.desktop.features.selection.selection import SAID
from llm_lite.desktop.features.tools.model import (
    AllowTool,
    AnswerCall,
    GoOn,
    RefuseCall,
    RunCall,
    StopCall,
    UnfoldResult,
    may_run,
    why_not,
)
from llm_lite.desktop.features.tools.state import RunningCall, ToolReply
from llm_lite.desktop.language.incoming import fit_line, fit_lines
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.language.units import duration
from llm_lite.desktop.widgets.controls import toggle
from llm_lite.desktop.widgets.icons import (
    ICON_CHECK,
    ICON_CHEVRON_DOWN,
    ICON_CHEVRON_RIGHT,
    ICON_TERMINAL,
)
from llm_lite.desktop.widgets.markdown.rich_text import Page, rich_text
from llm_lite.desktop.widgets.text_input import lines_field
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, fit, primary_button, tip, wrap_lines

WAYS = {
    "server": mark("{name} on {server} answered"),
    "hand": mark("{name}, answered by you"),
    "refused": mark("{name}, refused by you"),
    "failed": mark("{name} on {server} failed"),
}


class ResultItem:
    """One result at its width: its height, and how it is drawn at the cursor."""

    def __init__(self, state: AppState, ui: Ui, index: int, message: Message, width: float) -> None:
        assert message.reply is not None
        self.state, self.ui, self.index, self.message = state, ui, index, message
        self.width, self.reply = width, message.reply
        self.row, self.pad = ui.u(8), ui.u(3)
        self.page: Page | None = None
        if self.reply.unfolded:
            room = float(round(width - self.pad * 2))
            self.page = rich_text(ui).page(ui, result_as_code(message.text, SHOWN), room)

    @property
    def height(self) -> float:
        return self.row + (self.page.height + self.pad if self.page else 0.0)

    def draw(self) -> list[Action]:
        at = imgui.get_cursor_screen_pos()
        name = f"message.{self.index}"
        self.ui.rects[name] = (at.x, at.y, at.x + self.width, at.y + self.height)
        turned = self._draw_line(at)
        if self.page is not None:
            self._draw_text(self.page, ImVec2(at.x, at.y + self.row))
        return [UnfoldResult(self.index, not self.reply.unfolded)] if turned else []

    def _draw_line(self, at: ImVec2) -> bool:
        """Draw the line of a result, and return whether it was clicked."""
        ui, small = self.ui, self.ui.theme.size("small")
        imgui.set_cursor_screen_pos(at)
        size = ImVec2(self.width, self.row)
        clicked = imgui.invisible_button(f"##result.{self.index}", size)
        hovered = imgui.is_item_hovered()
        ui.mark(f"message.{self.index}.result")
        draw = imgui.get_window_draw_list()
        if hovered:
            end = ImVec2(at.x + self.width, at.y + self.row)
            draw.add_rect_filled(at, end, ui.color("hover"), ui.u(1.5))
        y = round(at.y + (self.row - small) / 2)
        icon = ICON_CHEVRON_DOWN if self.reply.unfolded else ICON_CHEVRON_RIGHT
        bad = self.reply.how == "failed"
        color = ui.color("warning" if bad else "text" if hovered else "muted")
        font, x = ui.fonts["regular"], at.x + self.pad
        draw.add_text(font, small, ImVec2(x, y), color, icon)
        x += small + ui.u(2)
        with ui.font(style="small"):
            facts = length_and_seconds(self.message.text, self.reply)
            right = imgui.calc_text_size(facts).x
            words = heading(self.reply)
            room = at.x + self.width - self.pad - right - ui.u(4) - x
            words = fit(words, room)
            draw.add_text(ImVec2(x, y), color, words)
            x += imgui.calc_text_size(words).x + ui.u(3)
            left = at.x + self.width - self.pad - right - ui.u(4) - x
            if not self.reply.unfolded and self.reply.how != "refused" and left > ui.u(12):
                brief = fit(fit_line(self.message.text[:400], 300), left)
                draw.add_text(ImVec2(x, y), ui.color("text"), brief)
            spot = ImVec2(at.x + self.width - self.pad - right, y)
            draw.add_text(spot, ui.color("muted"), facts)
        return clicked

    def _draw_text(self, page: Page, at: ImVec2) -> None:
        spot, name = (at.x + self.pad, at.y), f"result.{self.index}"
        width = self.width - self.pad * 2
        draw_page(self.state, self.ui, (self.index, SAID), page, spot, width, name)


MOST_SHOWN = 8_000  # characters of arguments
MOST_LINES = 12  # of arguments in sight; more are scrolled to
HAND_HINT = mark("What the function returns: a text or JSON")
ALLOW_HINT = mark(
    "Until another conversation is opened, calls of this function run at once. A new start of its "
    "server, another command, description or schema ask again."
)
RUN_HINT = mark("The server runs it with these arguments; it may do whatever its program can.")
REFUSE_HINT = mark("The model is told that you refused, and goes on.")


class CallByHand(Struct, frozen=True):
    """A call that is being answered by hand, and the text that is typed for it."""

    key: int  # of the message
    number: int
    text: str = ""


class CallsShown(Struct):
    """Values that the cards keep from frame to frame."""

    by_hand: CallByHand | None = None
    # text and height of arguments, by call, width and size of text
    arguments: dict[tuple[ToolCall, float, float], tuple[str, float]] = field(default_factory=dict)


class CallCards:
    """Cards of the calls of message `index`, in `width` pixels; without calls their height is 0."""

    def __init__(self, state: AppState, ui: Ui, index: int, message: Message, width: float) -> None:
        self.state, self.ui, self.message, self.width = state, ui, message, width
        self.index = index
        self.calls = calls_of(message)
        self.begun = message.calls.begun if message.calls else None
        self.asks = waiting(state) is message
        self.row, self.pad, self.gap = ui.u(8), ui.u(3), ui.u(2)
        self.height = self._height()

    def _height(self) -> float:
        if not self.calls and self.begun is None:
            return 0.0
        heights = [self._card_height(number) for number in range(len(self.calls))]
        if self.begun is not None:
            heights.append(self._begun_height(self.begun))
        return sum(heights) + self.gap * (len(heights) + 1) + self._foot_height()

    def _foot_height(self) -> float:
        return self.row + self.gap if self._is_held() else 0.0

    def _is_held(self) -> bool:
        """All calls are answered, and the model has not gone on by itself."""
        known = round_of(self.state, self.message)
        return self.asks and len(known.answered) == len(self.calls)

    def _card_height(self, number: int) -> float:
        if not self._is_open(number):
            return self.ui.u(9)
        _, tall = arguments_shown(self.ui, self.calls[number], self.width - self.pad * 2)
        height = self.pad * 2 + self.row + tall + self.gap + self.row
        note = self._note_lines(number)
        height += len(note) * self._small_line() + (self.gap if note else 0)
        if self._by_hand(number) is not None:
            height += self.ui.u(22) + self.gap
        elif may_run(self.state, number):
            height += self.ui.u(8)
        return height

    def _begun_height(self, call: ToolCall) -> float:
        _, tall = arguments_shown(self.ui, call, self.width - self.pad * 2)
        return self.pad * 2 + self.row + tall

    def _is_open(self, number: int) -> bool:
        """Return whether a call waits for a person; others are drawn as a line."""
        return self.asks and round_of(self.state, self.message).answer_of(number) is None

    def _by_hand(self, number: int) -> str | None:
        written = self.ui.local(CallsShown).by_hand
        if written is None or (written.key, written.number) != (self.message.id, number):
            return None
        return written.text

    def _small_line(self) -> float:
        return float(round(self.ui.theme.size("small") * 1.4))

    def _note_lines(self, number: int) -> tuple[str, ...]:
        words = why_not(self.state, number)
        if round_of(self.state, self.message).running_of(number) is not None:
            words = ""
        size = self.ui.theme.size("small")
        with self.ui.font(style="small"):
            return wrap_lines(words, self.width - self.pad * 2, size) if words else ()

    def draw(self, at: ImVec2) -> list[Action]:
        actions: list[Action] = []
        y = at.y + self.gap
        for number in range(len(self.calls)):
            height = self._card_height(number)
            imgui.push_id(number)
            actions += self._draw_card(number, ImVec2(at.x, y), height)
            imgui.pop_id()
            y += height + self.gap
        if self.begun is not None:
            height = self._begun_height(self.begun)
            self._ground(ImVec2(at.x, y), height)
            self._head(self.begun, ImVec2(at.x, y), tr("is being written"))
            self._arguments(self.begun, ImVec2(at.x + self.pad, y + self.pad + self.row), "begun")
        if self._is_held():
            actions += self._draw_foot(ImVec2(at.x, y))
        return actions

    def _draw_card(self, number: int, at: ImVec2, height: float) -> list[Action]:
        call, name = self.calls[number], f"call.{self.index}.{number}"
        self._ground(at, height, asks=self._is_open(number))
        self.ui.rects[name] = (at.x, at.y, at.x + self.width, at.y + height)
        if not self._is_open(number):
            self._draw_line(call, at, height)
            return []
        source = may_run(self.state, number)
        running = round_of(self.state, self.message).running_of(number)
        asks = call.name and running is None
        self._head(call, at, tr("wants to be called") if asks else "")
        y = at.y + self.pad + self.row
        y += self._arguments(call, ImVec2(at.x + self.pad, y), name) + self.gap
        note = self._note_lines(number)
        if note:
            self._draw_note(note, ImVec2(at.x + self.pad, y), bad=bool(call.problem))
            y += len(note) * self._small_line() + self.gap
        if running is not None:
            return self._draw_running(number, running, ImVec2(at.x + self.pad, y))
        if self._by_hand(number) is not None:
            return self._draw_by_hand(number, ImVec2(at.x + self.pad, y))
        return self._draw_buttons(number, source, ImVec2(at.x + self.pad, y))

    def _ground(self, at: ImVec2, height: float, asks: bool = False) -> None:
        ui, draw = self.ui, imgui.get_window_draw_list()
        end = ImVec2(at.x + self.width, at.y + height)
        draw.add_rect_filled(at, end, ui.color("raised"), ui.theme.radius)
        edge = ui.color("accent" if asks else "border")
        draw.add_rect(at, end, edge, ui.theme.radius, ui.u(0.35))

    def _head(self, call: ToolCall, at: ImVec2, words: str) -> None:
        """Draw icon, name and state in the row at the top."""
        ui, draw = self.ui, imgui.get_window_draw_list()
        size, small = ui.theme.text, ui.theme.size("small")
        x, y = at.x + self.pad, round(at.y + self.pad + (self.row - ui.u(2) - size) / 2)
        draw.add_text(ui.fonts["regular"], size, ImVec2(x, y), ui.color("accent"), ICON_TERMINAL)
        x += size + ui.u(2)
        with ui.font("bold"):
            name = fit(call.name or tr("A call that cannot be read"), self.width * 0.6)
            draw.add_text(ImVec2(x, y), ui.color("text"), name)
            x += imgui.calc_text_size(name).x + ui.u(2)
        spot = ImVec2(x, y + (size - small) / 2)
        draw.add_text(ui.fonts["regular"], small, spot, ui.color("muted"), words)

    def _draw_line(self, call: ToolCall, at: ImVec2, height: float) -> None:
        """Draw a call that has its result: name and arguments on a line, all of them in a tip."""
        ui, draw, small = self.ui, imgui.get_window_draw_list(), self.ui.theme.size("small")
        x, y = at.x + self.pad, round(at.y + (height - small) / 2)
        done = self.asks
        icon, color = (ICON_CHECK, "good") if done else (ICON_TERMINAL, "muted")
        draw.add_text(ui.fonts["regular"], small, ImVec2(x, y), ui.color(color), icon)
        x += small + ui.u(2)
        with ui.font("bold", "small"):
            name = fit(call.name or tr("A call that cannot be read"), self.width * 0.5)
            draw.add_text(ImVec2(x, y), ui.color("text"), name)
            x += imgui.calc_text_size(name).x + ui.u(2)
        with ui.font("mono", "small"):
            words = fit(fit_line(call.arguments, 400), at.x + self.width - self.pad - x)
            draw.add_text(ImVec2(x, y), ui.color("muted"), words)
        imgui.set_cursor_screen_pos(at)
        imgui.dummy(ImVec2(self.width, height))
        tip(ui, shown_arguments(call)[:2_000])

    def _arguments(self, call: ToolCall, at: ImVec2, name: str) -> float:
        """Draw the arguments in a window that scrolls if they are long; return its height."""
        words, tall = arguments_shown(self.ui, call, self.width - self.pad * 2)
        imgui.set_cursor_screen_pos(at)
        size = ImVec2(self.width - self.pad * 2, tall)
        with self.ui.colored(child_bg="code"), self.ui.styled(child_rounding=self.ui.u(1)):
            inside = (self.ui.u(2), self.ui.u(1.5))
            with self.ui.styled(window_padding=inside):
                flags = imgui.ChildFlags_.always_use_window_padding
                imgui.begin_child(f"arguments.{name}", size, flags)
        with self.ui.font("mono", "small"):
            imgui.push_text_wrap_pos(0.0)
            imgui.text_unformatted(words)
            imgui.pop_text_wrap_pos()
        imgui.end_child()
        return tall

    def _draw_note(self, lines: tuple[str, ...], at: ImVec2, bad: bool) -> None:
        ui, draw, small = self.ui, imgui.get_window_draw_list(), self.ui.theme.size("small")
        color = ui.color("warning" if bad else "muted")
        for number, line in enumerate(lines):
            spot = ImVec2(at.x, round(at.y + number * self._small_line()))
            draw.add_text(ui.fonts["regular"], small, spot, color, line)

    def _draw_buttons(self, number: int, server: str, at: ImVec2) -> list[Action]:
        ui, name = self.ui, f"call.{self.index}.{number}"
        actions: list[Action] = []
        imgui.set_cursor_screen_pos(at)
        if server:
            label = fit(tr("Run on {server}").format(server=server), self.width * 0.45)
            if primary_button(ui, f"{name}.run", label, tr(RUN_HINT)):
                actions.append(RunCall(number))
            imgui.same_line(0, ui.u(2))
        answer = button if server else primary_button
        if answer(ui, f"{name}.hand", tr("Answer by hand")):
            ui.local(CallsShown).by_hand = CallByHand(self.message.id, number)
        imgui.same_line(0, ui.u(2))
        if button(ui, f"{name}.refuse", tr("Refuse"), hint=tr(REFUSE_HINT)):
            actions.append(RefuseCall(number))
        if server:
            imgui.set_cursor_screen_pos(ImVec2(at.x, at.y + ui.u(9)))
            call = self.calls[number]
            was = is_allowed(self.state, call)
            label = tr("Always in this conversation")
            now = toggle(ui, f"{name}.allow", label, was, tr(ALLOW_HINT))
            meant = approval(self.state, call)
            if now != was and meant is not None:
                actions.append(AllowTool(meant, now))
        return actions

    def _draw_running(self, number: int, running: RunningCall, at: ImVec2) -> list[Action]:
        ui, name = self.ui, f"call.{self.index}.{number}"
        imgui.set_cursor_screen_pos(at)
        clicked = button(ui, f"{name}.stop", tr("Stop"), enabled=not running.stopping)
        imgui.same_line(0, ui.u(3))
        seconds = int(max(0.0, ui.now - running.began))
        words = trn("Running for {n} second", "Running for {n} seconds", seconds)
        words = tr("Stopping") if running.stopping else words.format(n=seconds)
        spot, small = imgui.get_cursor_screen_pos(), ui.theme.size("small")
        high = imgui.get_item_rect_max().y - imgui.get_item_rect_min().y
        spot = ImVec2(spot.x, round(spot.y + (high - small) / 2))
        draw = imgui.get_window_draw_list()
        draw.add_text(ui.fonts["regular"], small, spot, ui.color("muted"), words)
        ui.redraw_in(0.5)
        return [StopCall(number)] if clicked else []

    def _draw_by_hand(self, number: int, at: ImVec2) -> list[Action]:
        ui, name = self.ui, f"call.{self.index}.{number}"
        text = self._by_hand(number) or ""
        imgui.set_cursor_screen_pos(at)
        size = ImVec2(self.width - self.pad * 2, ui.u(22))
        with ui.styled(frame_padding=(ui.u(2), ui.u(1.5))), ui.font("mono", "small"):
            flags = imgui.InputTextFlags_.word_wrap
            _, text = lines_field(f"##{name}.text", text, size, flags)
        ui.mark(f"{name}.text")
        if not text:
            low, small = imgui.get_item_rect_min(), ui.theme.size("small")
            spot = ImVec2(low.x + ui.u(2), low.y + ui.u(1.5))
            draw = imgui.get_window_draw_list()
            draw.add_text(ui.fonts["regular"], small, spot, ui.color("muted"), tr(HAND_HINT))
        shown = ui.local(CallsShown)
        shown.by_hand = CallByHand(self.message.id, number, text)
        imgui.set_cursor_screen_pos(ImVec2(at.x, at.y + ui.u(22) + self.gap))
        label = tr("Give this answer")
        given = primary_button(ui, f"{name}.give", label, enabled=bool(text.strip()))
        imgui.same_line(0, ui.u(2))
        left = button(ui, f"{name}.back", tr("Back"))
        if given or left:
            shown.by_hand = None
        return [AnswerCall(number, text)] if given else []

    def _draw_foot(self, at: ImVec2) -> list[Action]:
        """Draw the button by which a person lets the model go on, if it did not by itself."""
        ui = self.ui
        imgui.set_cursor_screen_pos(at)
        clicked = primary_button(ui, "calls.go_on", tr("Go on"))
        imgui.same_line(0, ui.u(3))
        words = ""
        if not may_go_on(self.state):
            count = rounds(self.state)
            words = trn("{n} round of calls", "{n} rounds of calls", count).format(n=count)
            words += ". " + tr("Go on for {n} more?").format(n=ROUNDS)
        spot, small = imgui.get_cursor_screen_pos(), ui.theme.size("small")
        high = imgui.get_item_rect_max().y - imgui.get_item_rect_min().y
        spot = ImVec2(spot.x, round(spot.y + (high - small) / 2))
        draw = imgui.get_window_draw_list()
        draw.add_text(ui.fonts["regular"], small, spot, ui.color("muted"), words)
        return [GoOn()] if clicked else []


def shown_arguments(call: ToolCall) -> str:
    """Show the arguments of a call that can be read on a line each; else what was written."""
    words = call.arguments if call.problem else pretty(call.arguments)
    if len(words) > MOST_SHOWN:
        more = tr("{n} more characters").format(n=f"{len(words) - MOST_SHOWN:,}")
        words = f"{words[:MOST_SHOWN]}\n… {more}"
    return fit_lines(words, MOST_SHOWN + 200)


def arguments_shown(ui: Ui, call: ToolCall, width: float) -> tuple[str, float]:
    """Return the text of the arguments, and the height of its window."""
    known = ui.local(CallsShown).arguments
    key = (call, width, ui.theme.text)
    if key not in known:
        words = shown_arguments(call)
        with ui.font("mono", "small"):
            room = width - ui.u(4)
            tall = imgui.calc_text_size(words or " ", wrap_width=room).y
        most = MOST_LINES * ui.theme.size("small") * 1.25
        if len(known) > 64:
            known.clear()
        known[key] = (words, float(round(min(tall, most) + ui.u(3))))
    return known[key]


def heading(reply: ToolReply) -> str:
    name = reply.name or tr("A call that cannot be read")
    return tr(WAYS[reply.how]).format(name=name, server=reply.server)


def length_and_seconds(text: str, reply: ToolReply) -> str:
    """Name the size of a result, and the time that a server took."""
    if reply.how == "refused":
        return ""
    count = len(text)
    size = trn("{n} character", "{n} characters", count).format(n=f"{count:,}")
    return f"{size}  ·  {duration(1e3 * reply.seconds)}" if reply.server else size
