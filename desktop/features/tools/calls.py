"""The calls of an answer, below what it says, as cards: those that wait for a result ask."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import ToolCall
from llm_lite.core.tools.json_values import pretty
from llm_lite.desktop.features.chat.rounds import (
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
from llm_lite.desktop.features.tools.calling import (
    AllowTool,
    AnswerCall,
    GoOn,
    RefuseCall,
    RunCall,
    StopCall,
    may_run,
    why_not,
)
from llm_lite.desktop.features.tools.state import RunningCall
from llm_lite.desktop.language.incoming import fit_line, fit_lines
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.widgets.controls import toggle
from llm_lite.desktop.widgets.icons import ICON_CHECK, ICON_TERMINAL
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, fit, primary_button, tip, wrap_lines

SHOWN = 8_000  # characters of arguments
MOST_LINES = 12  # of arguments in sight; more are scrolled to
HAND = "calls.hand"  # in the memory: the call that is being answered by hand, and its text
HAND_HINT = mark("What the function returns: a text or JSON")
ALLOW_HINT = mark(
    "Until another conversation is opened, calls of this function run at once. A new start of its "
    "server, another command, description or schema ask again."
)
RUN_HINT = mark("The server runs it with these arguments; it may do whatever its program can.")
REFUSE_HINT = mark("The model is told that you refused, and goes on.")


class CallCards:
    """Of message `index`, in `width` pixels; of no height where it calls nothing."""

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
        """Whether it waits for a person: others are a line."""
        return self.asks and round_of(self.state, self.message).answer_of(number) is None

    def _by_hand(self, number: int) -> str | None:
        key, at, text = self.ui.memory.get(HAND, (0, 0, ""))
        return str(text) if (key, at) == (self.message.key, number) else None

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
        """Icon, name and state, in the row at the top."""
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
        """One that has its result: name and arguments on a line, all of them in a tooltip."""
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
        """In a window that scrolls where they are long; how tall it is."""
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
            ui.memory[HAND] = (self.message.key, number, "")
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
            _, text = imgui.input_text_multiline(f"##{name}.text", text, size, flags)
        ui.mark(f"{name}.text")
        if not text:
            low, small = imgui.get_item_rect_min(), ui.theme.size("small")
            spot = ImVec2(low.x + ui.u(2), low.y + ui.u(1.5))
            draw = imgui.get_window_draw_list()
            draw.add_text(ui.fonts["regular"], small, spot, ui.color("muted"), tr(HAND_HINT))
        ui.memory[HAND] = (self.message.key, number, text)
        imgui.set_cursor_screen_pos(ImVec2(at.x, at.y + ui.u(22) + self.gap))
        label = tr("Give this answer")
        given = primary_button(ui, f"{name}.give", label, enabled=bool(text.strip()))
        imgui.same_line(0, ui.u(2))
        left = button(ui, f"{name}.back", tr("Back"))
        if given or left:
            ui.memory.pop(HAND, None)
        return [AnswerCall(number, text)] if given else []

    def _draw_foot(self, at: ImVec2) -> list[Action]:
        """Rounds behind each other end here until a person says so; or nothing could be asked."""
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
    """Of a call that can be read, a line for each; else what was written."""
    words = call.arguments if call.problem else pretty(call.arguments)
    if len(words) > SHOWN:
        more = tr("{n} more characters").format(n=f"{len(words) - SHOWN:,}")
        words = f"{words[:SHOWN]}\n… {more}"
    return fit_lines(words, SHOWN + 200)


def arguments_shown(ui: Ui, call: ToolCall, width: float) -> tuple[str, float]:
    """The text, and how tall its window is."""
    known = ui.memory.setdefault("calls.shown", {})
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
    shown: tuple[str, float] = known[key]
    return shown
