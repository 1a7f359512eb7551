"""A window in which nothing happens draws nothing, whatever is in front of it."""

import json
import time

import pytest

from llm_lite.core.messages import LoadModel
from llm_lite.desktop.app.pacing import Pacer
from llm_lite.desktop.features.attachments.model import AttachFiles
from llm_lite.desktop.features.attention.model import ReadAgain
from llm_lite.desktop.features.chat.model import (
    EditMessage,
    NewChat,
    Regenerate,
    Send,
    SetDraft,
    SetSystemPrompt,
)
from llm_lite.desktop.features.history.host import HistoryHost
from llm_lite.desktop.features.history.model import (
    ImportConversations,
    OpenConversation,
    UndoHistory,
)
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.resume.model import KeepNow, Resume, offer_status
from llm_lite.desktop.features.tokens.model import SetXRay
from llm_lite.desktop.features.tokens.state import XRay
from tests.desktop.engine.engine import ScriptedEngine
from tools.tour.scenes.encoding import BUNDLED

LONG = 3600.0  # seconds: no frame is due
MOST_FRAMES = 200  # until the window rests
UPDATES = 50


class Resting:
    """The program with its interface, an engine and a history, drawn as its pacer says."""

    def __init__(self, make, path):
        self.one = make(AppState())
        self.program, self.pacer = self.one.program, Pacer()
        self.program.use("history", HistoryHost(path, lambda: None))
        self.engine = ScriptedEngine(0.0)
        self.program.start(self.engine)
        self.load(None)

    @property
    def state(self):
        return self.program.state

    def load(self, source):
        self.engine.submit(LoadModel(source))
        self.wait(lambda s: s.model is not None and s.load is None and s.history.read)
        self.engine.source = None  # nobody looks at attention here

    def wait(self, until):
        self.one.driver.wait("the state", until)

    def do(self, action, until=lambda state: True):
        self.program.do(action)
        self.wait(lambda s: not s.busy and s.reading is None and until(s))

    def step(self):
        """Do what the window does between two sleeps; tell whether it drew."""
        now = time.monotonic()
        if self.program.update():
            self.pacer.on_change(now)
        if not self.pacer.take(now):
            return False
        self.one.draw()
        ends = (notice.until for notice in self.state.notices)
        self.pacer.again(self.one.ui.redraw_at, *ends)
        return True

    def settle(self):
        """Go on until no frame is due any more."""
        self.pacer.on_input(time.monotonic())
        frames = 0
        while self.pacer.wait(time.monotonic(), LONG) < LONG or not self.engine.is_idle:
            frames += self.step()
            assert frames < MOST_FRAMES, "the window draws although nothing happens"
            time.sleep(0.002)

    def close(self):
        self.program.history.end()
        assert self.program.history.finish(LONG)


@pytest.fixture
def window(headless, tmp_path, monkeypatch):
    monkeypatch.setattr("llm_lite.desktop.features.resume.model.TITLE_SECONDS", LONG)
    monkeypatch.setattr("llm_lite.desktop.features.resume.model.KEEP_SECONDS", LONG)
    one = Resting(headless, tmp_path / "history.db")
    yield one
    one.close()


def kept(window, folder):
    window.do(Send("Why is the sky blue?"), lambda s: s.history.open is not None)


def reopened(window, folder):
    kept(window, folder)
    number = window.state.history.open
    window.do(NewChat())
    window.do(OpenConversation(number), lambda s: s.history.open == number)


def resumed(window, folder):
    kept(window, folder)
    window.do(KeepNow(), lambda s: s.resume.kept_tokens)
    number = window.state.history.open
    window.do(NewChat())
    window.do(Send("Another."), lambda s: len(s.messages) == 2)  # which takes the cache's place
    window.do(OpenConversation(number), lambda s: offer_status(s) and offer_status(s).tokens)
    window.do(Resume(), lambda s: s.owners)


def read_again(window, folder):
    reopened(window, folder)
    window.do(ReadAgain(), lambda s: s.owners)
    window.do(SetXRay(XRay(shown=True)))


def versions(window, folder):
    kept(window, folder)
    window.do(Regenerate(1))
    window.do(UndoHistory())
    window.do(SetSystemPrompt("Another."))


def drafted_file(window, folder):
    kept(window, folder)
    path = folder / "note.txt"
    path.write_text("A note.")
    window.do(AttachFiles((str(path),)), lambda s: s.files.files[0].tokens >= 0)
    window.do(SetDraft("What does it say?"), lambda s: s.files.draft[0] == s.draft)


def edited(window, folder):
    kept(window, folder)
    window.do(EditMessage(0))


def imported(window, folder):
    path = folder / "chats.json"
    said = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
    path.write_text(json.dumps({"llm-lite": 1, "messages": said}))
    window.do(ImportConversations(str(path)), lambda s: s.history.rows)
    number = window.state.history.rows[0].id
    window.do(OpenConversation(number), lambda s: s.history.open == number)


def encoder(window, folder):
    kept(window, folder)
    window.load(BUNDLED)


def empty(window, folder):
    pass


FRONTS = (
    empty, kept, reopened, resumed, read_again, versions, drafted_file, edited, imported, encoder,
)  # fmt: skip


@pytest.mark.parametrize("front", FRONTS, ids=lambda front: front.__name__)
def test_it_rests(window, tmp_path, front):
    front(window, tmp_path)
    window.settle()
    before = window.state
    assert not any(window.step() for _ in range(UPDATES))
    assert window.state is before
