"""The weight mode, switched by the page."""

import pytest

from tests.server.page.conftest import page_of, until


def switch(client):
    return client.get("/page/status").json()["modes"]["switch"]


def test_what_can_be_chosen(client):
    modes = client.get("/page/status").json()["modes"]
    assert set(modes["weights"]) == {"as-stored", "fp32", "fp16", "int8", "int4"}
    assert modes["activations"] == ["auto", "a32", "a8"]
    assert modes["asked"] == {"mode": "fp32", "activations": "auto"}
    assert modes["switch"] is None


def test_a_switch_is_seen_by_all(service, client, history):
    service.modes.go_on.clear()
    begun = client.post("/page/mode", json={"mode": "int8", "activations": "a8"})
    assert begun.status_code == 202
    assert begun.json()["switch"]["phase"] == "preparing"
    with page_of(service, history) as other:
        assert switch(other)["mode"] == "int8"
        assert switch(other)["fraction"] == 0.4
    second = client.post("/page/mode", json={"mode": "int4"})
    assert second.status_code == 409
    assert "int8" in second.json()["error"]["message"]
    service.modes.go_on.set()
    until(lambda: switch(client)["phase"] == "done")
    status = client.get("/page/status").json()
    assert (status["run"]["mode"], status["run"]["activations"]) == ("int8", "a8")
    assert status["modes"]["asked"] == {"mode": "int8", "activations": "a8"}
    again = client.post("/page/mode", json={"mode": "int8", "activations": "a8"})
    assert (again.status_code, again.json()["switch"]["number"]) == (200, 1)


def test_it_is_cancelled(service, client):
    service.modes.go_on.clear()
    client.post("/page/mode", json={"mode": "int8"})
    assert client.delete("/page/mode").status_code == 204
    until(lambda: switch(client)["phase"] == "cancelled")
    assert client.get("/page/status").json()["run"]["mode"] == "fp32"


def test_why_it_failed(service, client):
    service.modes.problem = "int8 weights need 9 GiB, but this machine has 1 GiB"
    client.post("/page/mode", json={"mode": "int8"})
    until(lambda: switch(client)["phase"] == "failed")
    assert switch(client)["problem"] == service.modes.problem


@pytest.mark.parametrize(
    "body", [{}, {"mode": "int7"}, {"mode": 4}, {"mode": "int8", "activations": []}, [], "int8"]
)
def test_what_is_no_mode_is_refused_with_a_sentence(client, body):
    refused = client.post("/page/mode", json=body)
    assert refused.status_code == 400
    assert "expected" in refused.json()["error"]["message"]
    assert switch(client) is None


def test_without_a_model_there_is_nothing_to_switch(history):
    with page_of(None, history) as client:
        assert client.post("/page/mode", json={"mode": "int8"}).status_code == 503
        assert client.delete("/page/mode").status_code == 503


def test_only_who_may_see_the_history_may_switch(service, history):
    with page_of(service, history, "secret") as client:
        assert client.post("/page/mode", json={"mode": "int8"}).status_code == 401
        assert client.delete("/page/mode").status_code == 401
        held = {"Authorization": "Bearer secret"}
        elsewhere = {**held, "Origin": "https://elsewhere.example"}
        body = {"mode": "int8"}
        assert client.post("/page/mode", json=body, headers=elsewhere).status_code == 403
        assert client.delete("/page/mode", headers=elsewhere).status_code == 403
        assert service.modes.last is None
        assert client.post("/page/mode", json=body, headers=held).status_code == 202
