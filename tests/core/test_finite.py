"""Weights that are finite and too large: every number that leaves the engine is looked at."""

import math

import numpy as np
import pytest

from llm_lite.core.convert.quantizing import quantize
from llm_lite.core.errors import FileError, NotFiniteError, RequestError
from llm_lite.core.finite import checked
from llm_lite.core.generation.session import Session
from llm_lite.core.loading.loader import open_model
from llm_lite.core.messages import (
    AnalyzeTensors,
    AttentionRows,
    CacheMeasured,
    CompareRuns,
    EffectRead,
    Ended,
    ExportMaps,
    Inspect,
    LensResult,
    MeasureCache,
    MeasureDivergence,
    MeasureModes,
    ReadAttentionRows,
    ReadEffect,
    SetInterventions,
    TokenDecoded,
)
from llm_lite.core.metrics.divergence import perplexity
from llm_lite.core.metrics.tensors import analyze
from tests.asking import effect
from tests.changes import scales
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
            effect(runner.session)


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
    whole, tokens = client.ask()
    runner = client.engine._host.runner
    runner.session.clear()
    mend = break_from(runner, 4)
    problem = client.refusal()
    mend()
    assert "t.gguf: the logits of token" in problem and "not finite numbers (NaN)" in problem
    told = [event.token for event in client.of(TokenDecoded, client.handles[-1])]
    assert told == tokens[: len(told)]
    assert len(told) >= 2
    again, repeated = client.ask()
    assert (again.stop_reason, repeated) == (whole.stop_reason, tokens)


def test_the_engine_tells_instead_of_numbers(client, huge):
    client.load(huge)
    assert "huge.gguf: the logits of token" in client.refusal()
    options = (exact(), exact())
    for task in (
        CompareRuns(HELLO, options, GREEDY),
        MeasureDivergence("", exact(), exact(keys="fp16"), 16, 1),
        MeasureModes(exact()),
    ):
        handle = client.send(task)
        assert "not finite numbers" in client.end_of(handle)
    assert not client.of(TokenDecoded)


def test_looking_inside_tells_instead_of_numbers(client, tmp_path):
    loaded = client.load(write_tiny_llama(tmp_path / "t.gguf"))
    client.ask()
    huge_gains = ((3e38,) * loaded.model.heads,) * loaded.model.layers
    with pytest.raises(RequestError, match="the logits of token"):
        client.result(SetInterventions(scales(huge_gains)), ReadEffect())
    with pytest.raises(RequestError, match="layer 0's logits are not finite numbers"):
        client.result(Inspect(3))
    assert not client.of((EffectRead, LensResult))
    assert "the logits of token" in client.refusal()


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
    handle = client.send(AnalyzeTensors("as-stored"))
    assert "tensor output.weight: expected finite" in client.end_of(handle)


def poison_keys(runner):
    """The keys of position 1, all layers, become NaN behind the session's back."""
    for layer in runner.session.cache.layers:
        columns = layer.keys.shape[1]
        row = np.full((1, columns), np.nan, np.float32).view(np.uint8)
        runner.executor.write_state(layer.keys.name, 1, row)


@pytest.mark.parametrize(
    "request_",
    [
        MeasureCache("key-norm", 0, 4),
        MeasureCache("received", 0, 4),
        ReadAttentionRows(3, "from", "heads", ((0, 0),)),
        ReadAttentionRows(1, "to", "layer-mean"),
        ReadAttentionRows(3, "from", "rollout"),
    ],
    ids=lambda r: f"{type(r).__name__} {getattr(r, 'what', getattr(r, 'mode', ''))}",
)
def test_keys_that_are_no_numbers_are_told(client, tmp_path, request_):
    """nan stands for what is not known, so it may not come from what was computed."""
    client.load(write_tiny_llama(tmp_path / "t.gguf"))
    client.ask()
    poison_keys(client.engine._host.runner)
    with pytest.raises(RequestError, match=r"t\.gguf: .*not finite numbers \(NaN\)"):
        client.result(request_)
    client.until(Ended)
    assert not client.of((CacheMeasured, AttentionRows))


def test_maps_that_are_no_numbers_are_not_written(client, tmp_path):
    client.load(write_tiny_llama(tmp_path / "t.gguf"))
    client.ask()
    poison_keys(client.engine._host.runner)
    problem = "the attention weights of layer 0, head 0 are not finite numbers"
    with pytest.raises(RequestError, match=problem):
        client.result(ExportMaps(str(tmp_path / "x.npz"), ((0, 0), (1, 3))))
    assert not (tmp_path / "x.npz").exists()


WHERE_SQUARES_OVERFLOW = ("token_embd.weight", "blk.0.ffn_up.weight", "blk.1.ffn_down.weight")


@pytest.mark.parametrize("tensor", WHERE_SQUARES_OVERFLOW)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_norm_that_overflows_does_not_make_zeros(tmp_path, backend, tensor, request):
    """x / sqrt(infinity) is 0: every token would be as likely as any other, without a word."""
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    path = write_huge_llama(tmp_path / "huge.gguf", tensor, 3e25)
    with running(path, exact(backend), device=device) as runner:
        for prompt in ([5], [5, 6, 7]):  # kernels of one token and of several
            with pytest.raises(NotFiniteError, match="the logits of token"):
                runner.session.prefill(prompt)
