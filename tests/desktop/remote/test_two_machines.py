"""One prompt for the model here and for one elsewhere, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from llm_lite.core.messages import Generate
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.model import OpenModel
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization.divergence import summary
from llm_lite.desktop.features.quantization.model import RunTask, ShowRuns, StopTask
from llm_lite.desktop.features.quantization.state import RunAnswer, RunComparison, RunToken
from llm_lite.desktop.features.remote.host import RemoteHost
from llm_lite.desktop.features.remote.model import FindServer
from tests.core.remote.servers import ScriptedServer, scripted
from tests.desktop.engine.answers import ANSWER
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.headless import Headless, sent

OTHER = ["Sunlight", " looks", " white", ", but", " it is", " not", "."]


@pytest.fixture
def window(headless: Callable[..., Headless]) -> Iterator[Headless]:
    one = headless(AppState())
    one.program.use("remote", RemoteHost(lambda: None))
    one.engine = ScriptedEngine(delay=0.0)
    one.program.start(one.engine)
    one.program.do(OpenModel(None))
    one.driver.wait("the model", lambda s: s.model is not None)
    yield one
    one.program.remote.close()


def compare(window: Headless, server: ScriptedServer) -> None:
    window.program.do(FindServer(server.url))
    window.driver.wait("the server", lambda s: s.elsewhere)
    window.program.do(ShowRuns(True))
    window.driver.frames(3)
    window.driver.click("runs.prompt")
    window.driver.type("Why is the sky blue?")
    window.driver.click("runs.start")


def test_both_answer_and_where_they_part_is_shown(window: Headless) -> None:
    with scripted("vllm", words=lambda body: OTHER) as server:
        compare(window, server)
        window.driver.wait("both", lambda s: s.quantization.comparison and not s.quantization.work)
        asked = server.chats[0]
    held = window.state.quantization.comparison
    a, b = held.answers
    assert ANSWER.startswith(a.text) and len(a.tokens) == 96
    assert b.text == "".join(OTHER) and b.executor.backend == "remote" and "vLLM" in held.elsewhere
    at_a, at_b = held.partings
    assert "".join(t.text for t in b.tokens[:at_b]) == "Sunlight looks white, but it is"
    assert a.tokens[at_a].text and b.tokens[at_b].text == " not"
    (here,) = sent(window.engine, Generate)
    assert here.sampling.max_new_tokens == 96 == asked["max_tokens"]
    assert here.sampling.temperature == 0 == asked["temperature"]
    window.driver.frames(3)
    assert window.driver.shows("runs.unscored") and not window.driver.shows("runs.keep.a")
    assert not window.state.messages, "nothing of it is in the chat"


def test_stop_ends_both(window: Headless) -> None:
    with scripted("vllm", delay=0.05) as server:
        window.engine.delay = 0.02
        compare(window, server)
        window.driver.wait("some", lambda s: s.quantization.comparison.answers[1].tokens)
        window.program.do(StopTask())
        window.driver.wait("the end", lambda s: s.quantization.work is None)
    answers = window.state.quantization.comparison.answers
    assert [answer.stop_reason for answer in answers] == ["stopped", "stopped"]


def test_a_server_that_fails_is_said(window: Headless) -> None:
    with scripted("vllm", status=429, headers={"Retry-After": "3"}) as server:
        compare(window, server)
        window.driver.wait("the end", lambda s: s.quantization.work is None)
    assert "try again in 3 s" in window.state.quantization.problem("runs")
    held = window.state.quantization.comparison
    assert held.answers[0].text and not held.answers[1].text
    assert summary(held) == "", "a run that failed has no text to be the same"


def test_what_is_measured_of_models_here_is_refused(window: Headless) -> None:
    with scripted("vllm") as server:
        window.program.do(FindServer(server.url))
        window.driver.wait("the server", lambda s: s.elsewhere)
        window.program.do(RunTask("modes"))
    assert window.state.quantization.work is None
    assert "Disconnect" in window.state.notices[-1].text


def test_partings_of_other_tokens() -> None:
    def answer(*words: str, ended: bool = True) -> RunAnswer:
        tokens = tuple(RunToken(n, word, 0.5) for n, word in enumerate(words))
        return RunAnswer(text="".join(words), tokens=tokens, stop_reason="end" if ended else None)

    def partings(a: RunAnswer, b: RunAnswer) -> tuple[int | None, int | None]:
        one = RunComparison("", (), (a, b), elsewhere="x")  # type: ignore[arg-type]
        return one.partings

    whole = answer("ab", "c", "def")
    assert partings(whole, answer("abc", "de", "f")) == (None, None)
    assert partings(whole, answer("a", "b", "cx")) == (2, 2)
    assert partings(whole, answer("abcd")) == (2, 1)
    assert partings(whole, replace(answer("abcd"), stop_reason=None)) == (None, None)
