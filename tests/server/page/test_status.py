"""How the engine is doing, for the page's gauges."""

from tests.server.page.conftest import page_of, until


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
    with page_of(None, history) as client:
        assert client.get("/page/status").json()["model"] is None
        assert client.get("/page/conversations").json()["conversations"] == []
        assert client.get("/page/maps", params={"response": "x", "layer": 0}).status_code == 503


def test_a_history_that_cannot_be_opened_is_told(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with page_of(None, tmp_path / "file" / "history.db") as client:
        until(lambda: client.get("/page/status").json()["history"]["problem"])
        assert "history.db" in client.get("/page/status").json()["history"]["problem"]


def test_files_are_open_and_the_rest_is_for_holders_of_the_key(service, history):
    with page_of(service, history, "secret") as client:
        assert client.get("/").status_code == 200
        assert client.get("/web/main.js").status_code == 200
        asked = ["/page/status", "/page/conversations", "/page/search?q=x", "/page/maps?layer=0"]
        for at in asked:
            assert client.get(at).status_code == 401, at
        assert client.post("/page/markdown", json={"text": "x"}).status_code == 401
        held = {"Authorization": "Bearer secret"}
        assert client.get("/page/status", headers=held).status_code == 200


def test_a_page_of_another_server_is_refused(client):
    elsewhere = {"Origin": "https://elsewhere.example"}
    assert client.get("/page/conversations", headers=elsewhere).status_code == 403
    assert client.post("/page/conversations", json={}, headers=elsewhere).status_code == 403
