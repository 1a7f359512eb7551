"""How the engine is doing, for the page's gauges."""

from starlette.applications import Starlette
from starlette.testclient import TestClient

from llm_lite.server.page import Page
from tests.server.page.conftest import until


def test_a_model_and_its_cache(client, answered):
    answered("Hello there, this is a prompt of more than one page of the cache, as I count it.")
    status = client.get("/page/status").json()
    assert status["model"]["name"] == "scripted"
    assert status["run"]["mode"] == "fp32"
    assert status["serving"]["pages_kept"] > 0
    assert status["serving"]["new_tokens"] > 0
    assert status["sampling"]["temperature"] == 0.4
    assert "secret" not in str(status)  # no path of this machine


def test_without_a_model_conversations_are_there(history):
    page = Page(lambda: None, history)
    with TestClient(Starlette(routes=page.routes())) as client:
        assert client.get("/page/status").json()["model"] is None
        assert client.get("/page/conversations").json()["conversations"] == []
        assert client.get("/page/maps", params={"response": "x", "layer": 0}).status_code == 503
    page.close()


def test_a_history_that_cannot_be_opened_is_told(tmp_path):
    (tmp_path / "file").write_text("no folder")
    page = Page(lambda: None, tmp_path / "file" / "history.db")
    with TestClient(Starlette(routes=page.routes())) as client:
        until(lambda: client.get("/page/status").json()["history"]["problem"])
        assert "history.db" in client.get("/page/status").json()["history"]["problem"]
    page.close()
