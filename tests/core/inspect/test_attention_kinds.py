"""Maps, rows and files of attention that is not causal, of a source, or biased by distance."""

from __future__ import annotations

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.vulkan.executor import VulkanExecutor
from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.inspect.attention_export import snapshot, write
from llm_lite.core.messages import ReadAttentionRows
from llm_lite.core.questions import attention_reader
from llm_lite.core.questions.attention_reader import AttentionRowsReader, mean_map
from tests.core.inspect.tiny_stack import (
    COLUMNS,
    DECODER,
    ENCODER,
    HEAD_DIM,
    HEADS,
    KV_HEADS,
    SOURCE,
    TinyStack,
)
from tests.core.questions.test_attention_reader import rollout_of
from tests.fixtures.seq2seq import marian, t5
from tests.runners import BACKENDS, exact, running
from tests.seq2seq_checks import stored, write_case

TEXT = tuple(np.random.default_rng(1).integers(0, 37, 13).tolist())


@pytest.fixture
def stack():
    made = []

    def build(kinds, **options):
        made.append(TinyStack(kinds, **options))
        made[-1].attend(TEXT)
        return made[-1]

    yield build
    for one in made:
        one.close()


def found_maps(source, layer):
    maps = np.empty((HEADS, len(source.rows), source.columns(layer)), np.float32)
    head_maps(source, layer, range(HEADS), maps)
    return maps


def check_maps(stack):
    """Against float64; no head looks as another."""
    for layer, shape in enumerate(stack.source.layers):
        maps, expected = found_maps(stack.source, layer), stack.maps(layer)
        np.testing.assert_allclose(maps, expected, atol=2e-6, rtol=0)
        np.testing.assert_allclose(maps.sum(axis=2), 1, atol=1e-5)
        assert np.abs(maps[0] - maps[1]).max() > 0.01
        rows = range(3, 9)
        for heads in (range(HEADS), (4, 1)):
            mean = mean_map(stack.source, layer, rows, rows.stop, heads)
            want = expected[list(heads), rows.start : rows.stop].mean(axis=0)
            want = want[:, : rows.stop] if shape.is_causal else want
            np.testing.assert_allclose(mean, want, atol=2e-6, rtol=0)


@pytest.mark.parametrize("options", [{}, {"columns": 0}, {"softcap": 0.8}, {"columns": 9}])
@pytest.mark.parametrize("kinds", [ENCODER, DECODER, ("causal",)])
def test_maps_are_the_weights_of_the_op(stack, kinds, options):
    one = stack(kinds, **options)
    check_maps(one)
    for layer, shape in enumerate(one.source.layers):
        at, maps = int(shape.keys[2:-1]), found_maps(one.source, layer)
        values = one.read(f"v.{at}c")[: maps.shape[2]].reshape(-1, KV_HEADS, HEAD_DIM)
        values = np.repeat(values, HEADS // KV_HEADS, axis=1)
        y = np.einsum("htc,chd->thd", maps, values).reshape(len(TEXT), COLUMNS)
        np.testing.assert_allclose(y, one.read(f"heads{at}"), atol=2e-5)


@pytest.mark.vulkan
@pytest.mark.parametrize("kinds", [ENCODER, DECODER])
def test_maps_of_what_a_device_keeps(stack, kinds, device):
    check_maps(stack(kinds, make=lambda *parts: VulkanExecutor(device, *parts)))


def test_self_attention_comes_before_cross_attention(stack):
    layers = stack(DECODER).source.layers
    assert [layer.cross for layer in layers] == [False, False, True, True]
    assert [layer.keys for layer in layers] == ["k.0c", "k.2c", "k.1c", "k.3c"]
    assert [layer.queries for layer in layers] == [f"q_ring.{number}" for number in range(4)]


def test_a_map_of_another_size_is_refused(stack):
    source = stack(DECODER).source
    with pytest.raises(ValueError, match=rf"expected \(1, 13, {SOURCE}\)"):
        head_maps(source, 2, [0], np.empty((1, 13, 13), np.float32))


def ask(reader, position, direction, *, mode="heads", heads=(), layer=0):
    wanted = ReadAttentionRows(position, direction, mode, heads, layer)
    found = reader.read(wanted)
    return np.array(found.weights), found.note


@pytest.mark.parametrize("layer", [1, 2])
@pytest.mark.parametrize("kinds", [ENCODER, DECODER])
def test_rows_and_columns(stack, kinds, layer):
    """Of cross-attention a row is over the source's tokens, a column over the text's."""
    one = stack(kinds)
    layer = min(layer, len(kinds) - 1)
    maps, reader = one.maps(layer), AttentionRowsReader(one.source)
    heads = ((layer, 4), (layer, 0))
    for mode, expected in (("heads", maps[[4, 0]]), ("layer-mean", maps)):
        expected = expected.mean(axis=0)
        for position in (0, 5, 12):
            row, said = ask(reader, position, "from", mode=mode, heads=heads, layer=layer)
            np.testing.assert_allclose(row, expected[position], atol=2e-6)
            column, unsaid = ask(reader, position, "to", mode=mode, heads=heads, layer=layer)
            np.testing.assert_allclose(column, expected[:, position], atol=2e-6)
            assert said == unsaid == ""


def test_a_column_that_is_too_much_at_once_is_told(stack, monkeypatch):
    one = stack(ENCODER)
    monkeypatch.setattr(attention_reader, "COLUMN_PAIRS", 4 * 13)
    column, message = ask(AttentionRowsReader(one.source), 6, "to", heads=((1, 2),))
    assert message == "of the tokens, 0 to 3 are told"
    np.testing.assert_allclose(column[:4], one.maps(1)[2, :4, 6], atol=2e-6)
    assert not column[4:].any()


def test_positions_of_the_source(stack):
    one = stack(DECODER)
    reader = AttentionRowsReader(one.source)
    column, _ = ask(reader, SOURCE - 1, "to", heads=((3, 2),))
    np.testing.assert_allclose(column, one.maps(3)[2, :, SOURCE - 1], atol=2e-6)
    with pytest.raises(RequestError, match="not in the source, which holds 21 tokens"):
        ask(reader, SOURCE, "to", heads=((3, 2),))
    with pytest.raises(RequestError, match="not in the cache, which holds 13 tokens"):
        ask(reader, SOURCE - 1, "from", heads=((3, 2),))
    with pytest.raises(RequestError, match="look at different texts"):
        ask(reader, 1, "from", heads=((3, 2), (0, 1)))


@pytest.mark.parametrize("kinds", [ENCODER, DECODER])
def test_rollout(stack, kinds):
    """Through self-attention; of an encoder another text, or a longer one, is computed again."""
    one = stack(kinds)
    reader = AttentionRowsReader(one.source)
    for text in (TEXT, TEXT[:5], TEXT[:9], (3, *TEXT[1:])):
        one.attend(text)
        layers = range(sum(kind != "cross" for kind in kinds))
        expected = rollout_of(np.stack([one.maps(layer) for layer in layers]))
        for position in (2, 4):
            row, _ = ask(reader, position, "from", mode="rollout")
            np.testing.assert_allclose(row, expected[position], atol=2e-6)
            column, _ = ask(reader, position, "to", mode="rollout")
            np.testing.assert_allclose(column, expected[:, position], atol=2e-6)


@pytest.mark.parametrize(("kinds", "heads"), [(ENCODER, ((1, 2), (0, 5))), (DECODER, ((3, 0),))])
def test_files_of_maps(stack, kinds, heads, tmp_path):
    one = stack(kinds)
    write(snapshot(one.source, heads), tmp_path / "maps.npz")
    with np.load(tmp_path / "maps.npz") as found:
        assert found["tokens"].tolist() == list(TEXT)
        assert found["positions"].tolist() == list(range(13))
        cross = kinds is DECODER
        assert ("source_tokens" in found) == cross
        assert not cross or found["source_tokens"].tolist() == list(range(SOURCE))
        for number, (layer, head) in enumerate(heads):
            want = one.maps(layer)[head]
            np.testing.assert_allclose(found["probs"][number], want, atol=2e-6)


def test_a_file_is_of_one_kind_of_heads(stack):
    with pytest.raises(RequestError, match="look at different texts"):
        snapshot(stack(DECODER).source, ((0, 1), (3, 0)))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("family", "case"), [(t5.FAMILY, "gated"), (marian.FAMILY, "plain")])
def test_a_loaded_encoder_decoder(family, case, backend, tmp_path, request):
    """What it keeps of two sources, one behind the other, against the reference's maps."""
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    path, known = write_case(family, case, tmp_path / "model"), stored(family.name, case)
    first = known["source"].tolist()
    found = []
    for name, used in (("numpy", None), (backend, device)):
        with running(path, exact(name), device=used) as runner:
            maps, source = [], runner.attention
            for tokens in (first, first[4:-1]):
                runner.read_source(tokens)
                runner.session.prefill(known["target"].tolist())
                assert source.source_tokens() == tuple(tokens)
                for layer in range(len(source.layers)):
                    size = source.layers[layer].heads, source.length, source.columns(layer)
                    maps.append(np.empty(size, np.float32))
                    head_maps(source, layer, range(size[0]), maps[-1])
            found.append(maps)
    layers = len(found[0]) // 2
    assert {one.shape[2] for one in found[0][:layers]} == {len(known["target"]), len(first)}
    for expected, own in zip(*found, strict=True):
        np.testing.assert_allclose(own, expected, atol=1e-4, rtol=0)
        np.testing.assert_allclose(own.sum(axis=2), 1, atol=1e-5)
