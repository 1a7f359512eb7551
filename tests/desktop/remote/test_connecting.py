"""A person connects the window to a server, talks, and comes back to the model here."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from imgui_bundle import imgui

from llm_lite.core.messages import (
    ExecutorChanged,
    Generate,
    Inspect,
    LoadModel,
    ReadAttentionRows,
)
from llm_lite.core.messages.remote import ApiKey
from llm_lite.core.records import replace
from llm_lite.desktop.app.settings import load, remember, restore, save
from llm_lite.desktop.features.chat.model import ContinueAnswer, Regenerate, Send
from llm_lite.desktop.features.commands.fields import ServerFields
from llm_lite.desktop.features.program.model import OpenModel, SetOptions
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.remote.host import RemoteHost
from llm_lite.desktop.features.remote.model import Disconnect, FindServer
from llm_lite.desktop.features.tokens.lens import LENS
from llm_lite.desktop.features.tree.model import ContinueFrom
from tests.core.remote.servers import ANSWER, KEY, scripted
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.headless import Headless, sent

WHOLE = "".join(ANSWER)
MODEL_THERE = "Qwen/Qwen3-8B"


@pytest.fixture
def window(headless: Callable[..., Headless]) -> Iterator[Headless]:
    """With a scripted engine and a model of this machine."""
    one = headless(AppState())
    one.program.use("remote", RemoteHost(lambda: None))
    one.engine = ScriptedEngine(delay=0.0)
    one.program.start(one.engine)
    one.program.do(OpenModel(None))
    one.driver.wait("the model", lambda s: s.model is not None)
    yield one
    one.program.remote.close()


def connected(window: Headless, url: str, **how: Any) -> None:
    window.program.do(FindServer(url, **how))
    window.driver.wait(
        "the server",
        lambda s: (
            s.elsewhere
            and not s.remote.requested_address
            and s.remote.connection.server.address == url
        ),
    )


def ask(window: Headless, words: str = "Why?") -> Any:
    window.program.do(Send(words))
    window.driver.wait("the answer", lambda s: not s.busy)
    return window.state.messages[-1]


def test_a_person_types_an_address_and_talks(window: Headless) -> None:
    driver = window.driver
    with scripted("vllm", key=KEY) as server:
        driver.click("chat.model")
        driver.click("remote.connect")
        driver.click("remote.address")
        driver.type(server.url)
        driver.click("remote.go")
        driver.wait("a refusal", lambda s: bool(s.remote.problem))
        assert "wants a key (401)" in window.state.remote.problem
        driver.click("remote.key")
        driver.type(KEY)
        driver.click("remote.go")
        driver.wait("the server", lambda s: s.elsewhere)
        driver.frames(3)
        assert window.state.model.name == MODEL_THERE and window.state.model.context == 40960
        assert driver.shows("remote.disconnect") and not driver.shows("remote.go")
        driver.click("models.close")
        answer = ask(window)
        assert answer.text == WHOLE and answer.stop_reason == "end"
        assert answer.likelihood(0) == pytest.approx(0.8)
        assert answer.written.backend == "remote" and server.url[7:] in answer.written.device
        assert (answer.written.model.name, answer.written.mode) == (MODEL_THERE, "")
        assert not sent(window.engine, Generate)
        driver.click("chat.model")
        driver.click("remote.disconnect")
        driver.wait("the model here", lambda s: s.model is not None)
    assert window.state.model == MODEL and not window.state.elsewhere
    driver.click("models.close")
    ask(window, "And here?")
    (command,) = sent(window.engine, Generate)
    assert [m.content for m in command.messages[:2]] == ["Why?", WHOLE]
    assert command.messages[1].tokens == ()  # those of another model


def test_an_address_that_is_refused_is_typed_again(window: Headless) -> None:
    driver = window.driver
    driver.click("chat.model")
    driver.click("remote.connect")
    driver.click("remote.address")
    driver.type("127.0.0.1:9")
    driver.press(imgui.Key.enter)
    driver.wait("a refusal", lambda s: bool(s.remote.problem))
    driver.frames(3)
    driver.type("9")  # without a click
    assert window.program.interface.ui.local(ServerFields).address == "127.0.0.1:99"


def test_an_answer_from_elsewhere_is_asked_again_there(window: Headless) -> None:
    with scripted("vllm") as server:
        connected(window, server.url)
        ask(window)
        window.driver.click("message.1.exactly")
        window.driver.wait("again", lambda s: not s.busy and s.tree.version(1) == 1)
        assert server.chats[0]["seed"] == server.chats[1]["seed"]
        window.program.do(Disconnect())
        window.driver.wait("the model here", lambda s: s.model == MODEL)
        window.driver.click("message.1.exactly")
        window.driver.click("chat.again.load")
        window.driver.wait("the server", lambda s: s.elsewhere)
        assert window.state.model.name == MODEL_THERE


def test_one_of_several_models_is_chosen(window: Headless) -> None:
    with scripted("lm-studio") as server:
        window.program.do(FindServer(server.url))
        window.driver.wait("the models", lambda s: s.remote.found is not None)
        window.driver.click("chat.model")
        window.driver.click("remote.model.1")
        window.driver.wait("the model", lambda s: s.elsewhere)
        assert ask(window).text == WHOLE
        assert server.chats[0]["model"] == "gemma-3-4b-it"


def test_the_conversation_goes_on_with_versions(window: Headless) -> None:
    with scripted("vllm") as server:
        connected(window, server.url)
        ask(window)
        window.program.do(Regenerate())
        window.driver.wait("another", lambda s: not s.busy)
        assert window.state.tree.version(1) == 1
        window.program.do(ContinueFrom(1, 2))
        window.driver.wait("a fork", lambda s: not s.busy)
        assert window.state.messages[-1].text == "The sky" + WHOLE
        assert server.chats[-1]["messages"][-1] == {"role": "assistant", "content": "The sky"}
        window.program.do(ContinueAnswer())
        window.driver.wait("more", lambda s: not s.busy)
        assert window.state.messages[-1].text == "The sky" + WHOLE + WHOLE
        seeds = [chat["seed"] for chat in server.chats]
        assert seeds[0] != seeds[1]


def test_a_server_that_breaks_is_one_sentence(window: Headless) -> None:
    with scripted("vllm", fault="cut") as server:
        connected(window, server.url)
        answer = ask(window)
    assert answer.text == "The sky is blue" and "cut off" in answer.problem
    assert not any("cut off" in notice.text for notice in window.state.notices), "said once"


def test_what_is_not_told_is_said(window: Headless) -> None:
    """No view is empty, none raises, and nothing of it reaches the engine here."""
    driver = window.driver
    with scripted("vllm") as server:
        connected(window, server.url)
        ask(window)
        window.engine.commands.clear()
        for view in (
            "attention",
            "kv_cache",
            "quantization",
            "head",
            "steer",
            "performance",
            "lens",
        ):
            driver.click(f"tab.{view}")
            driver.frames(3)
        driver.wait("the lens", lambda s: LENS.problem(s) != "")
        assert "does not tell" in LENS.problem(window.state)
        for panel in ("memory", "sampler"):
            driver.click(f"rail.{panel}")
            driver.frames(2)
            driver.click(f"{panel}.close")
        driver.click("status.executor")
        driver.frames(2)
        driver.press(imgui.Key.escape)
        options = replace(window.state.options, mode="int4")
        window.program.do(SetOptions(options))
        assert window.state.options.mode != "int4" and "Disconnect" in window.state.notices[-1].text
        assert not sent(window.engine, Inspect) and not sent(window.engine, ReadAttentionRows)


def test_opening_a_model_here_disconnects(window: Headless) -> None:
    with scripted("vllm") as server:
        connected(window, server.url)
        window.program.do(OpenModel("another"))
        assert not window.state.elsewhere
        window.driver.wait("the model", lambda s: s.model is not None)
    assert len(sent(window.engine, LoadModel)) == 2
    ask(window)
    assert len(sent(window.engine, Generate)) == 1


def test_nothing_is_connected_while_an_answer_is_written(window: Headless) -> None:
    with scripted("vllm", delay=0.05) as server:
        connected(window, server.url)
        window.program.do(Send("Why?"))
        window.program.do(Disconnect())
        assert window.state.elsewhere
        window.driver.wait("the answer", lambda s: not s.busy)
        assert window.state.messages[-1].text == WHOLE


def test_a_connection_while_the_first_model_still_loads(headless: Callable[..., Headless]) -> None:
    one = headless(AppState())
    host = RemoteHost(lambda: None)
    one.program.use("remote", host)
    engine = ScriptedEngine(delay=0.05)
    one.program.start(engine)
    one.program.do(OpenModel(None))
    with scripted("vllm") as server:
        connected(one, server.url)
        assert one.state.load is None
        one.driver.wait("both", lambda s: engine.source is not None)
        one.driver.frames(3)
        assert one.state.model.name == MODEL_THERE
        one.program.do(Disconnect())
        one.driver.wait("the model here", lambda s: s.model == MODEL)
    host.close()


def test_a_mode_that_a_client_switched_meanwhile_is_the_one_in_use(window: Headless) -> None:
    """The window's server answers with the model here, whoever answers the chat."""
    switched = replace(window.state.options, mode="int8", activations="a8")
    with scripted("vllm") as server:
        connected(window, server.url)
        window.engine.report(ExecutorChanged(replace(EXECUTOR, mode="int8"), MODEL, switched))
        window.driver.frames(3)
        assert window.state.executor.backend == "remote"
        window.program.do(Disconnect())
        window.driver.wait("the model here", lambda s: s.model == MODEL)
        window.driver.wait("its mode", lambda s: s.executor.mode == "int8")
    assert window.state.options == switched


def test_keys_are_kept_only_where_a_person_wants_it(window: Headless, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    for keeps in (False, True):
        with scripted("vllm", key=KEY) as server:
            connected(window, server.url, key=ApiKey(KEY), keeps=keeps)
            assert not save(remember(window.state, Settings()), path)
            assert (KEY in path.read_text()) == keeps
            window.program.do(FindServer(server.url))  # of this run it is known
            window.driver.wait(
                "again", lambda s: not s.remote.requested_address and not s.remote.found
            )
            assert not window.state.remote.problem
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    settings, problems = load(path)
    assert not problems and KEY not in repr(settings) and KEY not in repr(window.state)
    state = restore(settings, AppState())
    assert [one.model for one in state.remote.recent] == [MODEL_THERE] * 2
    assert state.remote.recent[0].key.text == KEY


def test_addresses_of_broken_settings(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    good = {"address": "http://x:1", "model": "m", "key": "k"}
    bad: list[Any] = [good, 5, {"address": "ftp://x"}, {"address": "http://y", "key": 5}]
    path.write_text(json.dumps({"addresses": bad}))
    settings, problems = load(path)
    assert [one.address for one in settings.addresses] == ["http://x:1"]
    assert len(problems) == 1 and "addresses" in problems[0]
