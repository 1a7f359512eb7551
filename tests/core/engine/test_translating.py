"""Targets by the engine: token by token, stopped, refused, and looked into."""

from __future__ import annotations

import math

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.generation.translation import longest_target
from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.loading.beside import translator_of
from llm_lite.core.messages import (
    NO_CHANGES,
    CacheStatus,
    Cancel,
    ConversationRead,
    ExecutorChanged,
    ExportMaps,
    Generate,
    GenerationFinished,
    Interventions,
    Logged,
    MapsExported,
    MeasureDivergence,
    MeasureModes,
    ModesMeasured,
    OpenCache,
    ProfileStep,
    Read,
    ReadAttentionRows,
    ReadTarget,
    Reconfigure,
    SaveCache,
    SetInterventions,
    SourceRead,
    StepProfiled,
    TargetFinished,
    TargetGrown,
    Translate,
)
from llm_lite.core.messages.gains import with_gains
from llm_lite.core.messages.interventions import Shift
from llm_lite.core.records import replace
from tests.children import PATIENCE
from tests.core.engine_client import HELLO, Hook
from tests.fixtures.seq2seq import marian, t5
from tests.runners import exact, running
from tests.seq2seq_checks import write_case, write_odd_heads

TEXT, TOKENS = "Where is the station?", 7
PARTS = ("encoder", "decoder", "cross")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_case(t5.FAMILY, "gated", tmp_path_factory.mktemp("t5"))


def translated(client, **changes):
    before = len(client.events)
    handle = client.send(replace(Translate(TEXT, 1, TOKENS), **changes))
    finished = client.until(TargetFinished)
    assert client.of(TargetFinished, handle) == [finished]
    client.until(CacheStatus)
    return finished, client.events[before:]


@pytest.mark.parametrize("backend", ["cpu", "vulkan"])
@pytest.mark.parametrize(("family", "case"), [(t5.FAMILY, "gated"), (marian.FAMILY, "plain")])
def test_the_target_grows_as_the_translator_finds_it(
    client, device, family, case, backend, tmp_path
):
    client.engine.device_lost(device)  # "use that one from now on"
    path = write_case(family, case, tmp_path)
    loaded = client.load(path, exact(backend))
    assert loaded.model.translates and loaded.model.translator.beams == 1
    with running(path, exact("cpu")) as runner:
        for beams in (1, 4):
            finished, events = translated(client, beams=beams)
            source = next(event for event in events if isinstance(event, SourceRead))
            grown = [event for event in events if isinstance(event, TargetGrown)]
            translator = translator_of(runner)
            options = translator.options(beams, TOKENS)
            expected = translator.translate([t.token for t in source.tokens], options)
            assert tuple(t.token for t in finished.tokens) == expected.tokens
            assert finished.score == pytest.approx(expected.score, abs=1e-4)
            assert [o.score for o in finished.others] == pytest.approx(
                [o.score for o in expected.others], abs=1e-4
            )
            assert len(grown) >= len(finished.tokens) and len(finished.others) == beams - 1
            assert all(len(one.tokens) == len(one.texts) for one in grown)
            assert finished.stats.source_tokens == len(source.tokens)
            assert finished.stats.beams == beams and finished.stats.tokens_per_s > 0
            logs = sum(math.log(token.probability) for token in finished.tokens)
            assert logs / len(finished.tokens) == pytest.approx(finished.score, abs=1e-3)
            assert all(t.alternatives[0].probability >= t.probability for t in finished.tokens)
            check_maps(client.engine, runner)


def test_heads_that_a_device_cannot_take_run_on_the_processor(client, device, tmp_path):
    """With one sentence that says why, in the log and in the status bar."""
    client.engine.device_lost(device)  # "use that one from now on"
    loaded = client.load(write_odd_heads(tmp_path), exact("vulkan"))
    reason = "attention heads of 5 values: on Vulkan their number must be even"
    assert (loaded.executor.backend, loaded.executor.reason) == ("cpu", reason)
    warned = [line.text for line in client.of(Logged) if line.level == "warning"]
    assert warned == [f"{reason}; the C++ executor takes over"]
    finished, _ = translated(client)
    assert finished.tokens


def check_maps(engine, runner):
    """Of each part, beside those of the C++ executor."""
    layers = [len(engine.attention(part).layers) for part in PARTS]
    assert layers[1:] == [runner.model.shape.layers] * 2
    for part in PARTS:
        found, known = engine.attention(part), runner.attention_of(part)
        assert found.tokens() == known.tokens() and found.length == known.length > 1
        for layer, shape in enumerate(found.layers):
            assert shape.cross == (part == "cross")
            maps = [
                np.empty((shape.heads, one.length, one.columns(layer)), np.float32)
                for one in (found, known)
            ]
            for one, out in zip((found, known), maps, strict=True):
                head_maps(one, layer, range(shape.heads), out)
            np.testing.assert_allclose(*maps, atol=1e-4)
            np.testing.assert_allclose(maps[0].sum(axis=2), 1, atol=1e-4)


def test_another_hypothesis_is_read(client, model):
    """Its maps are those of a decoder that wrote it."""
    client.load(model, exact("cpu"))
    finished, _ = translated(client, beams=4)
    other = finished.others[1]
    ids = tuple(token.token for token in other.tokens)
    assert ids != tuple(token.token for token in finished.tokens)
    client.send(ReadTarget(ids))
    assert client.until(CacheStatus).length == len(ids)
    assert client.engine.attention("decoder").tokens()[1:] == ids[:-1]
    client.send(Reconfigure(exact("cpu", context=8)))  # too small for the source
    client.until(ExecutorChanged)
    client.until(CacheStatus)
    client.send(ReadTarget(ids))
    assert "writes about a source" in next(
        text for text in iter(lambda: client.until(Logged).text, "") if "source" in text
    )


def test_rows_and_files_of_each_part(client, model, tmp_path):
    client.load(model, exact("cpu"))
    _, events = translated(client)
    source = len(next(event for event in events if isinstance(event, SourceRead)).tokens)
    for part, columns in zip(PARTS, (source, TOKENS, source), strict=True):
        rows = client.result(ReadAttentionRows(1, "from", "heads", ((1, 2),), part=part))
        assert rows.note == "" and len(rows.weights) == columns
        assert sum(rows.weights) == pytest.approx(1, abs=1e-4)
        path = tmp_path / f"{part}.npz"
        assert client.result(ExportMaps(str(path), ((1, 2),), part)) == MapsExported(str(path))
        with np.load(path) as saved:
            shapes = {saved[name].shape for name in saved}
        rows_there = source if part == "encoder" else TOKENS
        assert any(shape[-2:] == (rows_there, columns) for shape in shapes), shapes
    with pytest.raises(RequestError, match="cross-attention"):
        client.result(ReadAttentionRows(0, "from", "rollout", part="cross"))


def test_a_target_is_stopped_and_what_was_written_stays(client, model, monkeypatch):
    hook = Hook(monkeypatch)
    client.load(model, exact())
    reached = hook.block_step(6)  # the source is the first
    target = client.send(Translate(TEXT, 3))
    assert reached.wait(PATIENCE)
    client.send(Cancel(target.command))
    finished = client.until(TargetFinished)
    assert finished.stop_reason == "stopped" and client.end_of(target) == ""
    assert 0 < len(finished.tokens) < 6 and len(finished.others) == 2
    client.until(CacheStatus)
    assert client.engine.attention("decoder").length == len(finished.tokens)


def test_what_is_refused_says_so(client, model, tiny_llama):
    client.load(model, exact("cpu", context=32))
    assert problem_of(client, Translate(TEXT, 17)) == "beams: expected 1 to 16, found 17"
    problem = problem_of(client, Translate("a" * 33))
    assert "the source has 3" in problem and "expected 1 to 32" in problem
    problem = problem_of(client, Translate("a" * 100_000))
    assert problem.startswith("the source has ~100,000 tokens, but the context holds 32;")
    for command in (Generate(HELLO), Read(HELLO)):
        assert "writes a target about a source" in problem_of(client, command)
    client.load(tiny_llama, exact("cpu"))
    problem = problem_of(client, Translate(TEXT))
    assert "is no encoder-decoder: it continues texts" in problem
    assert not client.of((TargetFinished, GenerationFinished, ConversationRead))


def problem_of(client, command):
    return client.end_of(client.send(command))


def test_source_and_target_are_read_again_in_another_mode(client, model):
    client.load(model, exact("cpu"))
    translated(client)
    before = {part: client.engine.attention(part).tokens() for part in PARTS}
    client.send(Reconfigure(exact("cpu", mode="int8")))
    client.until(ExecutorChanged)
    assert client.until(CacheStatus).length == len(before["decoder"])
    for part in PARTS:
        assert client.engine.attention(part).tokens() == before[part]
    finished, _ = translated(client)
    assert finished.stop_reason in ("end", "length")
    client.send(Reconfigure(exact("cpu", mode="int8", context=8)))  # too small for the source
    client.until(ExecutorChanged)
    assert client.until(CacheStatus).length == 0


def gains_of(info, part, value):
    """1 everywhere but in one part: 0 the decoder's self-attention, 1 cross-attention, 2 the
    encoder."""
    layers = (info.layers, info.layers, info.translator.encoder_layers)
    rows = [value if at == part else 1.0 for at, count in enumerate(layers) for _ in range(count)]
    return tuple((gain,) * info.heads for gain in rows)


@pytest.mark.parametrize("part", range(3))
def test_heads_of_each_part_are_weighed(client, model, part):
    """Another mode keeps the gains, and reads source and target with them."""
    info = client.load(model, exact("cpu")).model
    assert len(gains_of(info, part, 0.0)) == info.gain_rows
    first, _ = translated(client)
    client.send(SetInterventions(weighed(info, part, 0.0)))
    other, _ = translated(client)
    assert abs(other.score - first.score) > 1e-4
    client.send(Reconfigure(exact("cpu", mode="fp32")))
    client.until(ExecutorChanged)
    client.until(CacheStatus)
    again, _ = translated(client)
    assert again.score == pytest.approx(other.score, abs=1e-4)
    client.send(SetInterventions(weighed(info, part, 1.0)))
    assert translated(client)[0].score == pytest.approx(first.score, abs=1e-5)


def weighed(info, part, value):
    return with_gains(NO_CHANGES, gains_of(info, part, value), info)


def test_what_does_not_fit_an_encoder_decoder_is_refused(client, model):
    info = client.load(model, exact("cpu")).model
    off = weighed(info, 2, 0.0)
    told = client.result(SetInterventions(off))
    assert told.interventions == off and off.changes[0].site == "encoder.layers.0.attention.heads"
    for site, sentence in (
        ("layers.0.attention.heads", "did you mean"),
        ("encoder.layers.0.feed_forward.residual", "which is not shifted"),
        ("decoder.layers.0.feed_forward.residual", "its layers are not shifted while it writes"),
    ):
        shift = Shift(site, (1.0,) * info.width)
        with pytest.raises(RequestError, match=sentence):
            client.result(SetInterventions(Interventions((shift,))))


def test_long_work_of_an_encoder_decoder(client, model):
    """A step is measured before and behind a source, and every mode; what is of running text is
    refused."""
    client.load(model, exact("cpu"))
    for source in (False, True):
        if source:
            translated(client)
        handle = client.send(ProfileStep(1))
        profile = client.until(StepProfiled).profile
        assert profile.depth == (TOKENS if source else 0) and profile.seconds > 0
        assert client.end_of(handle) == ""
    assert client.engine.attention("decoder").length == TOKENS, "the target stays"
    handle = client.send(MeasureModes(exact("cpu")))
    assert len(client.until(ModesMeasured).rows) == 5
    client.end_of(handle)
    handle = client.send(MeasureDivergence("", exact("cpu", mode="int4"), exact("cpu")))
    assert "is an encoder-decoder: perplexity" in client.end_of(handle)


def test_its_cache_is_not_kept_in_a_file(client, model, tmp_path):
    client.load(model, exact("cpu"))
    translated(client)
    for command in (SaveCache(str(tmp_path / "c.kv")), OpenCache(str(tmp_path / "c.kv"))):
        client.send(command)
        assert "its cache belongs to a source" in client.until(Logged).text
    assert not (tmp_path / "c.kv").exists()


def test_a_target_whose_length_nobody_chose_ends(client, model):
    """The model finds no end: as long as the source asks for, or as the context has room."""
    client.load(model, exact("cpu", context=64))
    finished, _ = translated(client, most_tokens=0)
    assert finished.stats.most_tokens == 63 and finished.stop_reason == "length"
    assert longest_target(10) == 220
