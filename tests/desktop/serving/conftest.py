"""The program with an engine that serves what is scripted, and the real server in front of it."""

import json
import time
import urllib.request

import pytest

from llm_lite.core.messages import LoadModel
from llm_lite.core.records import replace
from llm_lite.desktop.app.program import Program
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.serving.model import SetServing, SwitchServing
from llm_lite.desktop.features.serving.state import ServingChoice, ServingState
from tests.children import PATIENCE
from tests.desktop.engine.engine import ScriptedEngine
from tests.server.scripted_service import ScriptedService


def serving_engine():
    engine = ScriptedEngine(0.0)
    engine.clients = ScriptedService(delay=0.002)
    return engine


class Window:
    """The program without its interface."""

    def __init__(self, choice=None, engine=None):
        state = AppState(serving=ServingState(choice or ServingChoice()))
        self.program = Program(state, interface=None)
        self.engine = engine or serving_engine()
        self.program.start(self.engine)

    @property
    def state(self):
        return self.program.state

    @property
    def serving(self):
        return self.program.state.serving

    def do(self, *actions):
        for action in actions:
            self.program.do(action)

    def wait(self, until):
        end = time.monotonic() + PATIENCE
        while not until(self.serving):
            assert time.monotonic() < end, (self.serving, self.state.notices)
            self.program.update()
            time.sleep(0.002)

    def load(self, source=None):
        self.engine.submit(LoadModel(source))
        self.wait(lambda s: self.state.model is not None and self.state.load is None)

    def choose(self, **changes):
        self.do(SetServing(replace(self.serving.choice, **changes)))

    def switch_on(self, **changes):
        self.choose(**{"port": free_port(), **changes})
        self.do(SwitchServing(True))
        self.wait(lambda s: s.phase == "on" and s.answers)

    def switch_off(self):
        self.do(SwitchServing(False))
        self.wait(lambda s: s.phase == "off")

    def ask(self, path="/v1/models", body=None, key="", host="", seconds=PATIENCE):
        """What the server answers; HTTPError where it refuses."""
        head = {"Content-Type": "application/json"}
        head |= {"Authorization": f"Bearer {key}"} if key else {}
        head |= {"Host": host} if host else {}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.serving.address + path, data, head)
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return json.load(answer)

    def close(self):
        self.program.hosts["serving"].close(self.program.state, 5.0)
        self.engine.close()


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def window(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    made = Window()
    made.load()
    yield made
    made.close()
