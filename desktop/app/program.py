"""State, engine and interface put together: the desktop and the tour both run this.

Events and actions meet the state here and nowhere else; what needs the window system (a file
dialog) is requested by `on_choose_file`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import FileError, LlmLiteError
from llm_lite.core.files.writing import make_folder, write_file
from llm_lite.core.handles import Report
from llm_lite.core.inspect.attention import AttentionSource
from llm_lite.core.memory import available_bytes
from llm_lite.core.messages import Command, Event
from llm_lite.core.records import replace
from llm_lite.desktop.app.interface import Interface
from llm_lite.desktop.features.attachments.host import FileReader
from llm_lite.desktop.features.attachments.model import ChooseAttachments
from llm_lite.desktop.features.cache.model import AskFreeMemory
from llm_lite.desktop.features.chat.model import queued_message
from llm_lite.desktop.features.export_picture.host import Exporter, Outcome
from llm_lite.desktop.features.file_chooser.host import FolderReader, begin_choosing
from llm_lite.desktop.features.file_chooser.model import ChoosePath
from llm_lite.desktop.features.file_chooser.state import Purpose
from llm_lite.desktop.features.history.model import (
    ChooseConversations,
    ConversationBegun,
    TellHistory,
)
from llm_lite.desktop.features.host import Host
from llm_lite.desktop.features.library.host_installer import Installer, catalogue
from llm_lite.desktop.features.library.model import ChooseImport
from llm_lite.desktop.features.program.act import act, due
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.apply import apply, fold
from llm_lite.desktop.features.program.model import (
    ChooseFile,
    ExportAttention,
    OpenLink,
    OpenModel,
    SaveText,
)
from llm_lite.desktop.features.program.notices import add_log, defect_of, expire, notify
from llm_lite.desktop.features.program.requests import numbered
from llm_lite.desktop.features.program.state import AppState, CatalogueEntry, DeviceChoice, LogLine
from llm_lite.desktop.features.resume.model import IdleWork, keeping
from llm_lite.desktop.features.serving.host_lazy import LazyServingHost
from llm_lite.desktop.features.serving.model import SwitchServing
from llm_lite.desktop.language.incoming import fit_line, fit_to_show
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.figure import Figure

if TYPE_CHECKING:
    from llm_lite.desktop.features.history.host import HistoryHost
    from llm_lite.desktop.features.remote.host import LocalEngine, RemoteHost
    from llm_lite.desktop.features.tools.host import ToolHost


class Program:
    def __init__(self, state: AppState, interface: Interface) -> None:
        self.state = state
        self.interface = interface
        self.engine: LocalEngine | None = None
        self.hosts: dict[str, Host] = {}  # by the name of their feature
        self.use("attachments", FileReader())
        self.use("file_chooser", FolderReader())
        self.use("installer", Installer())
        self.use(
            "serving",
            LazyServingHost(
                lambda: self.engine.service() if self.engine else None,
                lambda: self.engine.coming() if self.engine else "",
            ),
        )
        self.on_choose_file: Callable[[], None] = partial(self.choose_here, "model")
        self.on_choose_attachments: Callable[[], None] = partial(self.choose_here, "attach")
        self.on_choose_import: Callable[[], None] = partial(self.choose_here, "import")
        self.on_choose_conversations: Callable[[], None] = partial(
            self.choose_here, "conversations"
        )
        self.on_choose_path: Callable[[ChoosePath], None] = self.choose_path_here
        self.on_open_link: Callable[[str], Outcome | None] = open_link
        self.on_event: Callable[[Event, float], None] = lambda event, now: None
        self.exporter = Exporter()
        self.idle = IdleWork()
        self._waiting: list[Command] = []

    def use(self, feature: str, host: Host) -> None:
        """Give the feature's actions to `host` from now on, and poll it."""
        self.hosts[feature] = host

    @property
    def history(self) -> HistoryHost | None:
        """The history of conversations, once it has been opened."""
        return cast("HistoryHost | None", self.hosts.get("history"))

    @property
    def remote(self) -> RemoteHost | None:
        """The host that connects to engines elsewhere, once it has been made."""
        return cast("RemoteHost | None", self.hosts.get("remote"))

    def start(self, engine: LocalEngine) -> None:
        """Send the engine the commands that waited for it."""
        self.engine = engine if self.remote is None else self.remote.around(engine)
        for command in self._waiting:
            self.engine.submit(command)
        self._waiting.clear()
        if self.state.serving.choice.at_start:
            self.do(SwitchServing(True))

    def update(self) -> bool:
        """Fold the engine's events, do what hosts found; return True if the state has changed."""
        before, now = self.state, time.monotonic()
        reports = self.engine.poll() if self.engine else []
        self._fold(reports, now)
        self._note()  # before an action of a host brings another conversation to the front
        for report in reports:
            self.on_event(report.event, now)
            self._send_to_hosts(report)
        for host in tuple(self.hosts.values()):
            for action in host.poll(self.state):
                self.do(action)
        self.state = expire(self.state, now)
        self.state, commands = due(self.state)
        self._send(commands)
        if (message := queued_message(self.state)) is not None:
            self.do(message)
        for action in self.idle.poll(self.state, now) if self.history else ():
            self.do(action)
        self._note()
        return self.state is not before

    def _note(self) -> None:
        """Save what is new in the conversation."""
        if self.history is None:
            return
        kept = self.history.note(self.state, time.monotonic())
        if kept is not None and kept != self.state.history.open:
            self.state, _ = act(ConversationBegun(kept), self.state, time.monotonic())

    def paint(self, *, following: bool = False) -> list[Action]:
        """Draw the interface and do what the person did; within a frame, which may be one that need
        not draw everything."""
        maps = self.interface.maps
        if maps is not None:
            maps.begin(self._attention(), self.state.busy, ids_in_front(self.state))
        if self.remote is not None:  # a server's, where one answers the chat
            self.interface.ui.maps = self.remote.maps(self.state) or maps
        actions = self.interface.frame(self.state, time.monotonic(), following=following)
        for action in actions:
            self.do(action)
        self._report(self.exporter.draw(self.state, self.interface.ui))
        return actions

    def _attention(self) -> AttentionSource | None:
        """Return the source of attention maps; an encoder-decoder's is of the part that is
        shown."""
        if self.engine is None:
            return None
        part = self.state.attention.part if self.state.writes_targets else None
        return self.engine.attention(part) if part else self.engine.attention()

    def drawn(self, render: Callable[[Figure], NDArray[np.uint8]]) -> None:
        """Render the pictures to be saved, now that the painted frame has been submitted."""
        self._report(self.exporter.write(render, self.interface.ui))

    def keep(self) -> None:
        """Save the cache of the conversation in the chat, if possible, as the program ends."""
        self._send(keeping(self.state))

    def take_last_events(self) -> None:
        """Pass the ended engine's last events to the hosts, which list what it saved."""
        for report in self.engine.poll() if self.engine and self.history else ():
            self._send_to_hosts(report)

    def close_hosts(self) -> None:
        """End what hosts run; the history goes on until the engine has ended."""
        for host in self.hosts.values():
            host.close(self.state)

    def _send_to_hosts(self, report: Report) -> None:
        for host in self.hosts.values():
            host.take(report, self.state)

    def _report(self, outcome: Outcome | None) -> None:
        if outcome is None:
            return
        if outcome.defect is not None:
            self.do(outcome.defect)
        elif outcome.failed:
            self.warn(outcome.words)
        else:
            self.state = notify(self.state, "info", outcome.words, time.monotonic())

    def choose_here(self, purpose: Purpose) -> None:
        """Choose files in the window itself, where the system has no dialog for that."""
        self.do(begin_choosing(purpose, self.state))

    def choose_path_here(self, action: ChoosePath) -> None:
        self.do(begin_choosing(action.purpose, self.state, action.target))

    def do(self, action: Action) -> None:
        if isinstance(action, ChooseFile):
            self.on_choose_file()
        elif isinstance(action, ChooseAttachments):
            self.on_choose_attachments()
        elif isinstance(action, ChooseImport):
            self.on_choose_import()
        elif isinstance(action, ChooseConversations):
            self.on_choose_conversations()
        elif isinstance(action, ChoosePath):
            self.on_choose_path(action)
        elif isinstance(action, ExportAttention) and action.kind == "png":
            self.exporter.begin(action, self.state)
        elif isinstance(action, SaveText):
            self._report(save_text(action.path, action.text))
        elif isinstance(action, OpenLink):
            self._report(self.on_open_link(action.address))
        elif isinstance(action, AskFreeMemory):
            self.state = replace(self.state, memory_available=available_bytes())
        elif isinstance(action, TellHistory) and action.level != "info":
            self.warn(action.text)
            return
        for host in self.hosts.values():
            if isinstance(action, host.actions):
                self._do_all(partial(host.do, action, self.state))
                break
        try:
            self.state, commands = act(action, self.state, time.monotonic())
        except Exception as error:
            action = defect_of(f"{type(action).__name__} could not be done", error)
            self.state, commands = act(action, self.state, time.monotonic())
        self._note()
        self._send(commands)

    def use_tools(self, tools: ToolHost) -> None:
        """Use `tools` from now on, and read what is stored of them."""
        tools.log = self._log
        self.use("tools", tools)
        self._do_all(tools.begin)

    def _log(self, text: str) -> None:
        self.state = add_log(self.state, LogLine("info", fit_line(text), time.time()))

    def _do_all(self, work: Callable[[], Sequence[Action]]) -> None:
        """Do work that needs files or processes, and the actions that follow of it."""
        try:
            follows = work()
        except FileError as error:
            self.warn(str(error))
            return
        for one in follows:
            self.do(one)

    def _fold(self, reports: list[Report], now: float) -> None:
        """Fold reports into the state; one that raises, which is a defect, costs only itself."""
        try:
            self.state = fold(reports, self.state, now)
        except Exception:
            for report in reports:
                try:
                    self.state = apply(report.event, self.state, now, report.command)
                except Exception as error:
                    self.do(defect_of(f"{type(report.event).__name__} could not be shown", error))

    def warn(self, text: str) -> None:
        """Report a problem of the program itself: as a notice, and as a line in the log."""
        self.state = notify(self.state, "warning", text, time.monotonic())
        self.note(text)

    def note(self, text: str) -> None:
        """Add a warning to the log."""
        self.state = add_log(self.state, LogLine("warning", text, time.time()))

    def _send(self, commands: tuple[Command, ...]) -> None:
        self.state, commands = numbered(self.state, commands)
        for command in commands:
            if self.engine is None:
                self._waiting.append(command)
            else:
                self.engine.submit(command)


class Lists(Struct, frozen=True):
    catalogue: tuple[CatalogueEntry, ...]
    devices: tuple[DeviceChoice, ...]


def ids_in_front(state: AppState) -> tuple[int, ...] | None:
    """Return the tokens of what is in front; None where they are all that the engine has. Until it
    reads them, it has those of the conversation, source or text before."""
    if state.holds_conversations:
        return state.in_front.ids
    if state.writes_targets:
        return None if state.translating.asked else ()
    return None if state.cached.texts else ()


def open_first_model(program: Program, source: str | None) -> None:
    """Load `source`, else the model that was used last, else the bundled one."""
    recent = [path for path in program.state.recent[:1] if Path(path).is_file()]
    program.do(OpenModel(source or (recent[0] if recent else None)))


def device_choices() -> tuple[DeviceChoice, ...]:
    from llm_lite.core.gpu.device import list_devices

    return tuple(
        DeviceChoice(info.index, info.name, info.kind, info.usable, info.why_not)
        for info in list_devices()
    )


def lists() -> Lists:
    """List the models and devices; this asks the drivers."""
    return Lists(
        catalogue(),
        tuple(map(fit_to_show, device_choices())),
    )


def with_lists(state: AppState, found: Lists) -> AppState:
    return replace(state, catalogue=found.catalogue, devices=found.devices)


def save_text(path: str, text: str) -> Outcome:
    """Write a file where none is; return what to show about it."""
    place = Path(path)
    try:
        make_folder(place.parent)
        write_file(place, text.encode("utf-8", "replace"), new=True)
    except LlmLiteError as error:
        return Outcome(str(error), failed=True)
    return Outcome(tr("Saved {path}").format(path=place))


def open_link(address: str) -> Outcome | None:
    """Ask the system's browser; it may take its time, and no frame waits for it. Return what to
    show where there is none."""
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return Outcome(
            tr("No browser was found to open {address}").format(address=address), failed=True
        )
    work = threading.Thread(target=browser.open, args=(address,), name="browser", daemon=True)
    work.start()
    return None
