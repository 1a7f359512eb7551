"""The server of the window as its clients meet it: on, asked, cancelled, off."""

import socket
import stat
import threading
import urllib.error

import pytest

from llm_lite.core.messages import LoadStarted, ServingChanged, StartServing, StopServing
from llm_lite.core.records import replace
from llm_lite.desktop.app.settings import load, remember, restore, save
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.serving.host import config_of, key_file, new_key, reachable, read_key
from llm_lite.desktop.features.serving.model import (
    CancelServed,
    HideKey,
    RenewKey,
    SetServing,
    SwitchServing,
)
from llm_lite.desktop.features.serving.state import ServingChoice
from llm_lite.server.config import page_history
from tests.children import PATIENCE
from tests.desktop.headless import sent
from tests.desktop.serving.conftest import Window, free_port

ASKED = {"messages": [{"role": "user", "content": "one two three four five six"}]}
CHAT = "/v1/chat/completions"


def in_background(window, count=1):
    """So many requests, each on a thread; what they got is in the list once they ended."""
    got = []

    def ask():
        try:
            got.append(window.ask(CHAT, ASKED, seconds=60))
        except OSError as error:
            got.append(error)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    return got, threads


def test_it_answers_while_it_is_on(window):
    window.switch_on(parallel=3)
    assert sent(window.engine, StartServing) == [StartServing(parallel=3)]
    assert window.serving.address.endswith(str(window.serving.choice.port))
    assert window.ask()["data"][0]["id"]
    assert window.ask(CHAT, ASKED)["choices"][0]["message"]["content"]
    window.wait(lambda s: s.status.finished == 1)
    address = (window.serving.address.split("/")[-1].split(":")[0], window.serving.choice.port)
    window.switch_off()
    assert len(sent(window.engine, StopServing)) == 1
    with pytest.raises(OSError):
        socket.create_connection(address, 1)
    window.do(SwitchServing(True))  # on the same port again
    window.wait(lambda s: s.phase == "on")
    assert window.serving.status.finished in (0, 1)


def test_a_model_that_is_being_loaded_is_listed(window):
    window.switch_on()
    window.engine.service, window.engine.coming = lambda: None, lambda: "The next one"
    (found,) = window.ask()["data"]
    assert (found["id"], found["status"]) == ("the-next-one", {"value": "loading"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        window.ask(CHAT, ASKED)
    assert refused.value.code == 503 and refused.value.headers["retry-after"]


def test_requests_are_listed_and_can_be_ended(window):
    window.engine.clients.parallel = 2
    window.engine.clients.delay = 0.02
    window.engine.clients.script = lambda request: "word " * 5000
    window.switch_on()
    got, threads = in_background(window, 3)
    window.wait(lambda s: len(s.running) == 2 and len(s.waiting) == 1 and s.rate > 0)
    first = window.serving.running[0]
    assert "127.0.0.1" in first.client and window.serving.rate_of(first.number) > 0
    for request in window.serving.status.requests:
        window.do(CancelServed(request.number))
    assert first.number in window.serving.cancelling
    window.wait(lambda s: not s.status.requests and not s.cancelling)
    for thread in threads:
        thread.join(PATIENCE)
    assert len(got) == 3 and window.serving.status.cancelled == 3


def test_switching_off_ends_what_runs(window):
    window.engine.clients.hold.clear()
    window.switch_on()
    got, threads = in_background(window)
    window.wait(lambda s: bool(s.status.requests))
    window.do(SwitchServing(False))
    assert window.serving.phase == "stopping"
    window.do(SwitchServing(True))  # not before it has ended
    assert window.serving.phase == "stopping"
    window.engine.clients.hold.set()
    window.wait(lambda s: s.phase == "off")
    for thread in threads:
        thread.join(PATIENCE)
    assert len(got) == 1 and not window.serving.status.requests


def test_a_port_that_is_taken_is_a_sentence(window):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        window.choose(port=port)
        window.do(SwitchServing(True))
        window.wait(lambda s: s.phase == "off")
    assert str(port) in window.serving.problem
    assert window.state.notices[-1].text.lower() == f"{window.serving.problem}."
    window.switch_on()
    assert window.serving.problem == ""


def test_an_engine_that_cannot_serve_ends_the_server(window):
    window.engine.refuses_clients = "the device has too little memory for 4 answers"
    window.choose(port=free_port())
    window.do(SwitchServing(True))
    window.wait(lambda s: s.phase == "off")
    assert window.serving.problem == window.engine.refuses_clients
    assert len(window.state.notices) == 1


def test_a_server_without_a_model_waits_for_one(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    window = Window()
    try:
        window.choose(port=free_port())
        window.do(SwitchServing(True))
        window.wait(lambda s: s.phase == "on")
        assert sent(window.engine, StartServing) == [] and not window.serving.answers
        with pytest.raises(urllib.error.HTTPError) as refused:
            window.ask(CHAT, ASKED)
        assert refused.value.code == 503
        window.load()
        window.wait(lambda s: s.answers)
        assert window.ask(CHAT, ASKED)["choices"]
    finally:
        window.close()


def test_the_next_model_is_served_again(window):
    window.switch_on()
    window.engine.report(LoadStarted("another"))
    window.engine.report(ServingChanged(False, problem="no model is loaded: open one first"))
    window.wait(lambda s: not s.asked)
    assert window.serving.phase == "on" and len(sent(window.engine, StartServing)) == 1
    window.load()
    window.wait(lambda s: len(sent(window.engine, StartServing)) == 2 and s.answers)
    assert window.serving.phase == "on" and window.serving.problem == ""


def test_a_key_is_made_once_and_shown_once(window):
    window.switch_on(asks_key=True)
    key = window.serving.fresh_key
    assert len(key) > 30 and window.serving.key_end == key[-4:]
    assert key not in repr(window.state)
    assert stat.S_IMODE(key_file().stat().st_mode) == 0o600
    window.do(HideKey())
    assert window.serving.fresh_key == ""
    window.switch_off()
    window.switch_on()
    assert window.serving.fresh_key == "" and window.serving.key_end == key[-4:]
    window.do(RenewKey())
    window.wait(lambda s: bool(s.fresh_key))
    assert window.serving.fresh_key != key and read_key(key_file()) == window.serving.fresh_key
    assert window.serving.phase == "on"


def test_it_is_switched_on_at_the_start_where_a_person_wants_that(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for wanted in (False, True):
        window = Window(ServingChoice(port=free_port(), at_start=wanted))
        window.load()
        phase = "on" if wanted else "off"
        window.wait(lambda s, phase=phase: s.phase == phase)
        window.wait(lambda s, wanted=wanted: s.answers == wanted)
        window.close()


def test_whoever_has_no_key_is_refused(window):
    window.switch_on(asks_key=True)
    old = window.serving.fresh_key
    with pytest.raises(urllib.error.HTTPError) as refused:
        window.ask()
    assert refused.value.code == 401
    assert window.ask(key=old)["data"]
    window.do(HideKey(), RenewKey())
    window.wait(lambda s: bool(s.fresh_key))
    with pytest.raises(urllib.error.HTTPError):
        window.ask(key=old)
    assert window.ask(key=window.serving.fresh_key)["data"]


def test_a_key_file_that_is_none_is_a_sentence(window):
    key_file().parent.mkdir(parents=True, exist_ok=True)
    key_file().write_bytes(b"short\n\xff")
    window.choose(asks_key=True, port=free_port())
    window.do(SwitchServing(True))
    window.wait(lambda s: s.phase == "off")
    assert "expected a key of 16 to 256" in window.serving.problem


def test_the_network_needs_a_key_and_this_machine_none(tmp_path):
    machine, network = ServingChoice(), ServingChoice("network", 9000)
    assert not machine.needs_key and network.needs_key and ServingChoice(asks_key=True).needs_key
    assert config_of(machine, "", ()).host == "127.0.0.1" and reachable(machine) == ()
    config = config_of(network, new_key(tmp_path / "key"), ("192.168.1.20",))
    assert (config.host, config.port) == ("0.0.0.0", 9000) and config.api_key
    assert "192.168.1.20" in config.host_names
    assert config.history == page_history()  # nobody else reads the person's conversations
    shares = replace(network, shares_history=True)
    assert config_of(shares, "key", ()).history is None is config_of(machine, "", ()).history
    assert all(not host.startswith("127.") for host in reachable(network))


def test_names_are_those_that_browsers_send():
    written = "LLM.example.org, https://nas.local:8443/llm  인공지능.한국 nas."
    choice = ServingChoice(names=written)
    names = ("llm.example.org", "nas.local", "xn--ob0bx1i5qu18b.xn--3e0b707e", "nas")
    assert choice.host_names == names and choice.wrong_name == ""
    assert config_of(choice, "", ()).host_names == names
    assert config_of(replace(choice, reach="network"), "k", ()).host_names[-4:] == names
    for wrong in ("*.example.org", "a b@", "http://", "a b..c", "x" * 64, "[::1"):
        assert ServingChoice(names=wrong).wrong_name, wrong


def test_a_name_is_answered_once_it_is_given(window):
    window.switch_on()
    with pytest.raises(urllib.error.HTTPError) as refused:
        window.ask(host="llm.example.org")
    assert refused.value.code == 403
    window.do(SwitchServing(False))
    window.wait(lambda s: s.phase == "off")
    window.switch_on(names="llm.example.org")
    assert window.ask(host="llm.example.org")["data"]


def test_what_was_chosen_is_remembered_and_not_switched_on(tmp_path):
    choice = ServingChoice("network", 9001, 7, True, True, True, "llm.example.org")
    state = AppState()
    state = replace(state, serving=replace(state.serving, choice=choice, phase="on"))
    path = tmp_path / "settings.json"
    assert save(remember(state, Settings()), path) == ""
    settings, problems = load(path)
    assert problems == [] and settings.serving == choice
    restored = restore(settings, AppState()).serving
    assert restored.choice == choice and restored.phase == "off"
    path.write_text('{"serving": {"port": 70000, "reach": "moon", "parallel": 0, "at_start": 1}}')
    settings, problems = load(path)
    assert settings.serving == ServingChoice() and len(problems) == 4


def test_a_choice_out_of_range_is_brought_into_it(window):
    window.do(SetServing(ServingChoice(port=99999, parallel=0)))
    assert (window.serving.choice.port, window.serving.choice.parallel) == (65535, 1)
