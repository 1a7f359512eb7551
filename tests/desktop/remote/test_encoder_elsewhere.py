"""The window connected to an encoder of another llm-lite: its page, its maps and the lesson are
those of an encoder here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from llm_lite.core.encoding.masked import encode_for_display
from llm_lite.core.encoding.pooling import cosines
from llm_lite.core.messages import EncodeText
from llm_lite.core.questions.attention import ReadAttention
from llm_lite.core.records import replace
from llm_lite.core.serving.direct_services import EncoderService
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.attention.rows import ROWS
from llm_lite.desktop.features.encoder.model import ENCODED, SIMILARITIES, ChooseEncoding
from llm_lite.desktop.features.lesson.model import (
    GoToStep,
    RunSentence,
    ShowLesson,
    lesson_page,
)
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.remote.host import RemoteHost
from llm_lite.desktop.features.remote.host_maps import RemoteMaps
from llm_lite.desktop.features.remote.model import Disconnect, FindServer
from llm_lite.server.config import ServerConfig
from llm_lite.server.serve import Server
from tests.asking import asked
from tests.core.remote.servers import scripted
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.engine.model import MODEL
from tests.desktop.headless import Headless, sent
from tests.encoder_checks import started, write_case
from tests.encoder_families import family_of


@pytest.fixture(params=["masked", "several"])
def window(
    request: pytest.FixtureRequest, headless: Callable[..., Headless], tmp_path: Path
) -> Iterator[Headless]:
    """Connected, with the example read."""
    runner = started(write_case(family_of("bert"), request.param, tmp_path / "m"), "cpu")
    service = EncoderService(runner)
    server = Server(lambda: service, ServerConfig(port=0))
    server.start()
    one = opened(headless)
    one.runner, one.service = runner, service
    one.program.do(FindServer(server.address))
    one.driver.wait("the server", lambda s: s.elsewhere)
    one.driver.wait("the text", is_encoded)
    one.driver.frames(2)
    yield one
    one.program.remote.close()
    server.stop()
    runner.close()
    runner.model_file.close()


def opened(headless: Callable[..., Headless]) -> Headless:
    one = headless(AppState(model=MODEL))
    one.program.use("remote", RemoteHost(lambda: None))
    one.engine = ScriptedEngine(delay=0.0)
    one.program.start(one.engine)
    return one


def is_encoded(state: AppState) -> bool:
    return ENCODED.waiting(state) is None and ENCODED.answer(state) is not None


def choose(window: Headless, **changes: object) -> None:
    window.program.do(ChooseEncoding(replace(window.state.encoding, **changes)))
    window.driver.frames(2)
    window.driver.wait("the text", is_encoded)
    window.driver.frames(2)


def here(window: Headless, request: EncodeText) -> tuple[str, ...]:
    runner = window.runner
    tokenizer = runner.model_file.tokenizer
    found = encode_for_display(runner.session, tokenizer, request, runner.most_tokens)
    return tuple(one.text for one in found.tokens)


def maps_of(window: Headless) -> RemoteMaps:
    found = window.ui.maps
    assert isinstance(found, RemoteMaps)
    return found


def test_its_page_shows_what_it_reads(window: Headless) -> None:
    state, driver = window.state, window.driver
    assert state.encodes and "reads texts from now on" in state.notices[-1].text
    assert driver.shows("encoding.mode.text") and not sent(window.engine, EncodeText)
    choose(window, text="the cat sat on")
    assert tuple(one.text for one in ENCODED.answer(window.state).tokens) == here(
        window, EncodeText("the cat sat on")
    )
    assert driver.shows("encoding.token.0") and driver.shows("encoding.count")


def test_sentences_are_compared_there(window: Headless) -> None:
    sentences = ("the cat sat", "a dog", "the cat")
    choose(window, mode="pairs", sentences=sentences, pair=(0, 2))
    window.driver.wait("cosines", lambda s: SIMILARITIES.answer(s) is not None)
    window.driver.frames(2)
    expected = cosines(window.runner.embed(sentences))
    assert np.abs(np.array(SIMILARITIES.answer(window.state).similarities) - expected).max() < 1e-5
    assert {one.segment for one in ENCODED.answer(window.state).tokens} == {0, 1}
    assert window.driver.shows("encoding.matrix")


def test_masked_tokens_are_filled_there(window: Headless) -> None:
    window.program.do(ChooseEncoding(replace(window.state.encoding, mode="fill")))
    window.driver.frames(3)
    if not window.state.model.fills:
        assert window.driver.shows("encoding.no_head")
        return
    choose(window, filled="the [MASK] sat")
    words = ENCODED.answer(window.state).masks[0].candidates
    window.driver.click("encoding.word.0.0")
    assert window.state.encoding.filled != "the [MASK] sat"
    assert words[0].text.removeprefix("##") in window.state.encoding.filled
    window.driver.wait("the text", is_encoded)


def test_a_token_shows_where_it_attends(window: Headless) -> None:
    choose(window, text="the cat sat on")
    window.driver.click("encoding.token.2")
    window.driver.wait("rows", lambda s: ROWS.answer(s) is not None)
    rows = ROWS.answer(window.state)
    assert rows.position == 2 and len(rows.weights) == len(window.state.positions)
    assert sum(rows.weights) == pytest.approx(1, abs=1e-3) and rows.weights[4] > 0
    choose(window, text="on the cat")
    window.driver.wait("rows", lambda s: ROWS.answer(s) is not None)
    assert len(ROWS.answer(window.state).weights) == 5, "they are of the text in front"


def test_maps_are_of_the_very_text_in_front(window: Headless) -> None:
    choose(window, text="the cat sat on")
    window.driver.click("tab.attention")
    window.driver.frames(3)
    window.driver.wait("maps", lambda s: not maps_of(window).pending)
    window.driver.frames(3)
    maps = maps_of(window)
    assert not maps.problem and maps.length == 6 and not maps.layers[0].is_causal
    assert window.driver.shows("attention.0.0")
    window.driver.click("tab.head")
    window.program.do(SetAttention(replace(window.state.attention, locked=((1, 2),))))
    window.driver.wait("the head", lambda s: maps.value("head.1.2", 1, 4) is not None)
    here(window, EncodeText("the cat sat on"))
    truth = asked(ReadAttention(1, (2,)), window.runner).attention[0]
    for row, column in ((1, 4), (4, 1)):  # it sees what follows, too
        assert maps.value("head.1.2", row, column) == pytest.approx(truth[row, column], abs=1e-5)
    window.program.state = replace(window.state, cached=replace(window.state.cached, ids=(1, 2, 3)))
    window.driver.frames(2)
    assert maps_of(window).length == 0 and "once it has read the text" in maps_of(window).problem


def test_the_lesson_follows_a_token_there(window: Headless) -> None:
    window.program.do(ShowLesson(True))
    window.program.do(RunSentence("the cat sat"))
    window.driver.wait("the trace", lambda s: lesson_page(s).trace is not None)
    trace = lesson_page(window.state).trace
    assert trace.shape.path == "encoder" and len(trace.tokens) == 5
    assert not lesson_page(window.state).problem
    for step in range(len(lesson_page(window.state).steps)):
        window.program.do(GoToStep(step))
        window.driver.frames(2)


def test_every_view_draws(window: Headless) -> None:
    for tab in [name for name in window.ui.rects if name.startswith("tab.")]:
        window.driver.click(tab)
        window.driver.frames(2)
    assert not [one for one in window.state.log if one.level == "error"]


def test_a_text_that_cannot_be_read_is_one_sentence(
    window: Headless, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = window.service

    def broken(*given: object) -> object:
        found = EncoderService.encode(service, *given)
        return replace(found, encoded=replace(found.encoded, tokens=()))

    monkeypatch.setattr(service, "encode", broken)
    window.program.do(ChooseEncoding(replace(window.state.encoding, text="the cat")))
    window.driver.frames(2)
    window.driver.wait("the sentence", lambda s: bool(ENCODED.problem(s)))
    window.driver.frames(2)
    assert "encoded.tokens: expected 1 to" in ENCODED.problem(window.state)
    assert window.driver.shows("encoding.problem") and not window.state.positions


def test_the_model_here_comes_back(window: Headless) -> None:
    window.program.do(Disconnect())
    window.driver.frames(3)
    assert not window.state.elsewhere and not window.state.encodes
    assert not isinstance(window.ui.maps, RemoteMaps)


def test_an_embedding_model_of_another_server_is_refused(headless: Callable[..., Headless]) -> None:
    with scripted("lm-studio", embeds=True) as server:
        one = opened(headless)
        one.program.do(FindServer(server.url, model="nomic-embed"))
        one.driver.wait("the sentence", lambda s: bool(s.remote.problem))
        one.driver.frames(2)
        assert "nomic-embed makes vectors of texts, and LM Studio" in one.state.remote.problem
        assert not one.state.elsewhere and one.state.remote.found is not None
        one.program.remote.close()
