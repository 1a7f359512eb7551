"""A page on a scripted service, asked as a browser asks it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from llm_lite.core.messages import AnswerRequest, ChatMessage, Ended
from llm_lite.server.config import ServerConfig
from llm_lite.server.page import Page
from llm_lite.server.routes import make_app
from llm_lite.server.shared import Shared
from tests.children import PATIENCE
from tests.server.scripted_service import ScriptedService


@contextmanager
def page_of(
    service: ScriptedService | None, history: Path, api_key: str = ""
) -> Iterator[TestClient]:
    shared = Shared(lambda: service, ServerConfig(history=history, api_key=api_key), log=print)
    page = Page(shared)
    yield TestClient(make_app(shared, page), base_url="http://127.0.0.1")
    page.close()
    shared.close()


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    made = ScriptedService()
    yield made
    made.close()


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


@pytest.fixture
def client(service: ScriptedService, history: Path) -> Iterator[TestClient]:
    with page_of(service, history) as made:
        yield made


def until(check: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait for what must happen."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


class Talk:
    """A conversation through the routes."""

    def __init__(self, client: TestClient, prompt: str = "Be brief.") -> None:
        self.client = client
        begun = client.post("/page/conversations", json={"system_prompt": prompt})
        assert begun.status_code == 201
        self.id: str = begun.json()["id"]
        self.at = f"/page/conversations/{self.id}"

    def say(self, text: str, parent: str | None = None, **more: Any) -> dict[str, Any]:
        said = self.client.post(f"{self.at}/messages", json={"text": text, "parent": parent} | more)
        assert said.status_code == 201, said.text
        return said.json()

    def begin(self, parent: str, **more: Any) -> dict[str, Any]:
        begun = self.client.post(f"{self.at}/answers", json={"parent": parent} | more)
        assert begun.status_code == 201, begun.text
        return begun.json()

    def write(self, answer: dict[str, Any], text: str, **more: Any) -> None:
        put = self.client.put(f"{self.at}/answers/{answer['id']}", json={"text": text} | more)
        assert put.status_code == 204, put.text

    def finish(self, answer: dict[str, Any], text: str, **more: Any) -> None:
        self.write(answer, text, finished=True, **({"reason": "end"} | more))

    def turn(self, text: str, answer: str, parent: str | None = None) -> SimpleNamespace:
        said = self.say(text, parent)
        answered = self.begin(said["id"])
        self.finish(answered, answer)
        return SimpleNamespace(said=said, answered=answered)

    @property
    def shown(self) -> list[dict[str, Any]]:
        return self.client.get(self.at).json()["messages"]

    @property
    def texts(self) -> list[str]:
        return [message["text"] for message in self.shown]


@pytest.fixture
def talk(client: TestClient) -> Talk:
    return Talk(client)


@pytest.fixture
def answered(service: ScriptedService) -> Callable[[str], str]:
    """Have the service answer a text; the name of its response."""

    def answer(text: str) -> str:
        name, ended = f"chatcmpl-{len(service.requests)}", []
        request = AnswerRequest(name, messages=(ChatMessage("user", text),))
        service.submit(request, ended.append)
        until(lambda: ended and isinstance(ended[-1], Ended))
        return name

    return answer
