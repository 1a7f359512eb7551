"""Weights that are finite and too large: every number that leaves the engine is looked at."""

import math

import numpy as np
import pytest

from core import inspection
from core.errors import FileError, NotFiniteError
from core.finite import checked
from core.loading import open_model
from core.messages import (
    AnalyzeTensors,
    CompareGains,
    CompareLanes,
    GainsEffect,
    GenerationFinished,
    Inspect,
    LensResult,
    MeasureDivergence,
    MeasureModes,
    SetGains,
    TaskFinished,
    TokenDecoded,
)
from core.metrics.divergence import perplexity
from core.metrics.tensors import analyze
from core.quantizing import quantize
from core.session import Session
from tests.core.engine_client import GREEDY, HELLO
from tests.huge import write_huge_llama
from tests.make_gguf import write_tiny_llama
from tests.runners import BACKENDS, exact, running


@pytest.fixture
def huge(tmp_path):
    return write_huge_llama(tmp_path / "huge.gguf")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 699])
def test_one_value_is_enough(bad, place):
    values = np.zeros(700, np.float32)
    assert checked(values, "the logits") is values
    values[place] = bad
    found = "NaN" if math.isnan(bad) else "infinity"
    with pytest.raises(NotFiniteError) as caught:
        checked(values, "the logits of token 5", "x.gguf", "int4 a8")
    assert str(caught.value) == (
        f"x.gguf: the logits of token 5 are not finite numbers ({found}): values overflow in "
        "int4 a8; `llm-lite verify` tells whether the file is damaged"
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_session_gives_no_logits_that_are_no_numbers(huge, backend, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    with running(huge, exact(backend), device=device, every_output=True) as runner:
        session: Session = runner.session
        with pytest.raises(NotFiniteError, match=r"huge.gguf: the logits of token 2 are not"):
            session.prefill([5, 6, 7])
        with pytest.raises(NotFiniteError, match="token 0"):
            session.logits([5, 6, 7])
        with pytest.raises(NotFiniteError, match="token 0"):
            list(session.score([5, 6, 7], 1, 1))
        assert session.context_used == 0


def test_nan_divergences_are_not_zero(tmp_path):
    """max(0, NaN) is 0."""
    with running(write_tiny_llama(tmp_path / "t.gguf")) as runner:
        runner.session.prefill([5, 6, 7])
        layers, heads = len(runner.session.gains), len(runner.session.gains[0])
        runner.session.set_gains(((3e38,) * heads,) * layers)
        with pytest.raises(NotFiniteError, match="the logits of token 2"):
            inspection.divergence(runner.session)


def test_a_perplexity_beyond_numbers_is_a_sentence():
    assert perplexity(np.array([-2.0, -2.0])).mean == pytest.approx(math.e**2)
    with pytest.raises(NotFiniteError, match=r"costs 1e\+05 nats a token"):
        perplexity(np.array([-1e5, -1e5]))


def break_from(runner, step):
    """From this step on the executor gives NaN."""
    run, count = runner.executor.run, 0

    def broken(*arguments):
        nonlocal count
        count += 1
        logits = run(*arguments)
        if count >= step:
            logits[-1, -1] = np.nan
        return logits

    runner.executor.run = broken
    return lambda: setattr(runner.executor, "run", run)


def test_an_answer_stops_with_a_sentence_and_the_next_one_runs(client, tmp_path):
    client.load(write_tiny_llama(tmp_path / "t.gguf"))
    whole, tokens = client.ask(1)
    runner = client.engine._running.runner
    runner.session.clear()
    mend = break_from(runner, 4)
    finished, told = client.ask(2)
    mend()
    assert finished.stop_reason == "error"
    assert "t.gguf: the logits of token" in finished.message
    assert "not finite numbers (NaN)" in finished.message
    assert told == tokens[: len(told)]
    assert len(told) >= 2
    again, repeated = client.ask(3)
    assert (again.stop_reason, repeated) == (whole.stop_reason, tokens)


def test_the_engine_tells_instead_of_numbers(client, huge):
    client.load(huge)
    finished, tokens = client.ask(1)
    assert (finished.stop_reason, tokens) == ("error", [])
    assert "huge.gguf: the logits of token" in finished.message
    options = (exact(), exact())
    for task in (
        CompareLanes(2, HELLO, options, GREEDY),
        MeasureDivergence(3, "", exact(), exact(keys="fp16"), 16, 1),
        MeasureModes(4, exact()),
    ):
        client.send(task)
        assert "not finite numbers" in client.until(TaskFinished).message
    assert not client.of(TokenDecoded)


def test_looking_inside_tells_instead_of_numbers(client, tmp_path):
    loaded = client.load(write_tiny_llama(tmp_path / "t.gguf"))
    client.ask(1)
    huge_gains = ((3e38,) * loaded.model.heads,) * loaded.model.layers
    client.send(SetGains(huge_gains), CompareGains(2))
    effect = client.until(GainsEffect)
    assert math.isnan(effect.kl)
    assert "the logits of token" in effect.message
    client.send(Inspect(3, 3))
    lens = client.until(LensResult)
    assert lens.rows == ()
    assert "layer 0's logits are not finite numbers" in lens.message
    client.ask(4)
    assert client.of(GenerationFinished)[-1].stop_reason == "error"


def test_the_report_of_huge_weights_is_of_numbers(tmp_path):
    """Squares of values beyond 1e19 are beyond float32."""
    source = write_huge_llama(tmp_path / "huge.gguf", factor=1e25)
    file = open_model(str(source), lambda *_: None, lambda text: None)
    report = quantize(file, tmp_path / "v", "fp32")
    assert all(row.snr_db is None for row in report.tensors)
    rows = analyze(file.file.tensors, "as-stored", lambda *_: None)
    assert all(row.snr_db == math.inf for row in rows)
    file.close()


def test_a_table_of_tensors_names_the_one_that_is_no_number(client, tmp_path):
    path = write_huge_llama(tmp_path / "nan.gguf", factor=1.0)
    raw = bytearray(path.read_bytes())
    raw[-4:] = np.float32(np.nan).tobytes()
    path.write_bytes(raw)
    file = open_model(str(path), lambda *_: None, lambda text: None)
    for mode in ("as-stored", "int8"):
        with pytest.raises(FileError, match=r"nan.gguf: tensor output.weight: expected finite"):
            analyze(file.file.tensors, mode, lambda *_: None, path)
    file.close()
    client.load(path)
    client.send(AnalyzeTensors(1, "as-stored"))
    assert "tensor output.weight: expected finite" in client.until(TaskFinished).message
