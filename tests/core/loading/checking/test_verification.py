"""Damage in the files of a model: found by slices, while the engine is idle, and before copying."""

import json

import numpy as np
import pytest

from llm_lite.core.convert.quantizing import quantize
from llm_lite.core.convert.slicing import slice_model
from llm_lite.core.errors import FileError
from llm_lite.core.loading import loader, verification
from llm_lite.core.loading.verification import Part, Verification, tensor_parts, verify
from llm_lite.core.messages import (
    FileDamaged,
    GenerationFinished,
    KeepVariant,
    LoadModel,
    Logged,
    ModelLoaded,
    Reconfigure,
)
from llm_lite.core.models.model import Slice
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import TensorData
from tests.core.convert.test_slicing import EVEN, EVEN_CUT
from tests.core.engine_client import Client
from tests.make_gguf import write_tiny_llama
from tests.make_huggingface import write_tiny_gemma3n
from tests.runners import exact
from tests.weight_blocks import damaged, random_blocks


def opened(path, **how):
    warnings = []
    file = loader.open_model(str(path), lambda *_: None, warnings.append, **how)
    return file, warnings


def make_variant(source, place, mode="int4"):
    file, _ = opened(source)
    quantize(file, place, mode)
    file.close()
    return place


@pytest.fixture
def variant(tmp_path):
    source = write_tiny_llama(tmp_path / "tiny.gguf", dtype="f32")
    return make_variant(source, tmp_path / "variant")


def damage(folder, tensor):
    """One bit of a tensor's last byte but eight, which leaves numbers finite."""
    file, _ = opened(folder, check_weights=False)
    raw = file.file.tensors[tensor].data.tobytes()
    file.close()
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[content.index(raw) + len(raw) - 8] ^= 1
    weights.write_bytes(content)


def some_tensor(dtype="f32", rows=64, bad=None):
    shape = (rows, max(64, FORMATS[dtype].block_size))
    if FORMATS[dtype].encoder is None:
        data = random_blocks(dtype, shape)
        if bad is not None:
            damaged(dtype, data, bad[0] * shape[1] // FORMATS[dtype].block_size, np.nan)
        return TensorData("t", dtype, shape, data)
    values = np.ones(shape, np.float32)
    if bad is not None:
        values[bad] = np.nan
    return TensorData("t", dtype, shape, FORMATS[dtype].quantize(values))


@pytest.mark.parametrize("dtype", list(FORMATS))
@pytest.mark.parametrize("bad", [None, (0, 0), (31, 63), (63, 63)])
def test_slices_cover_every_format(monkeypatch, tmp_path, dtype, bad):
    monkeypatch.setattr(verification, "SLICE_BYTES", 1000)
    if dtype == "nvfp4":
        bad = None  # all its bytes are finite
    tensor = some_tensor(dtype, bad=bad)
    seen = []
    found = list(verify(tensor_parts(tmp_path, [tensor]), progress=seen.append))
    assert sum(seen) == tensor.nbytes
    assert max(seen) <= max(1000, FORMATS[dtype].block_bytes * FORMATS[dtype].tile_rows)
    problems = [str(p) for p in found if p is not None]
    expected = [f"{tmp_path}: tensor t has values that are not finite numbers"]
    assert problems == ([] if bad is None else expected)


def test_a_part_that_cannot_be_read_is_a_finding_and_others_go_on(tmp_path):
    def gone():
        raise FileError(tmp_path / "x", "cannot be read: gone")
        yield b""

    parts = [Part(tmp_path / "x", "", "0" * 8, 0, gone), *tensor_parts(tmp_path, [some_tensor()])]
    problems = [str(p) for p in verify(parts) if p is not None]
    assert problems == [f"{tmp_path / 'x'}: cannot be read: gone"]


def test_work_waits_in_order_and_each_file_is_checked_once(tmp_path):
    work = Verification()
    assert not work.pending
    assert work.step() is None
    one = tensor_parts(tmp_path / "one", [some_tensor(bad=(0, 0))])
    work.add(one)
    work.add(one)
    work.add(tensor_parts(tmp_path / "two", [some_tensor(bad=(0, 0))]), skip=["t"])
    work.add(tensor_parts(tmp_path / "three", [some_tensor(bad=(0, 0))]))
    found = []
    while work.pending:
        found.append(work.step())
    assert [str(p).rpartition("/")[2].split(":")[0] for p in found if p] == ["one", "three"]


def test_large_files_are_let_go_of(monkeypatch, variant):
    released = []
    monkeypatch.setattr(verification, "drop_pages", lambda data: released.append(data.nbytes))
    file, _ = opened(variant)
    assert released == []
    monkeypatch.setattr(verification, "available_bytes", lambda: 1000)
    work = Verification()
    work.add(file.file.parts)
    while work.pending:
        assert work.step() is None
    assert sum(released) == sum(tensor.nbytes for tensor in file.file.tensors.values())
    file.close()


def test_damaged_variants_are_warned_of_when_they_are_opened(variant):
    assert opened(variant)[1] == []
    damage(variant, "blk.1.ffn_up.weight")
    (warning,) = opened(variant)[1]
    assert "model.safetensors: tensor blk.1.ffn_up.weight is damaged: expected check" in warning
    assert opened(variant, later=True)[1] == []


def test_a_file_that_nobody_checks_later_is_checked_at_once(tmp_path):
    source = write_tiny_llama(tmp_path / "t.gguf", dtype="f32")
    raw = bytearray(source.read_bytes())
    raw[-4:] = np.float32(np.nan).tobytes()
    source.write_bytes(raw)
    (warning,) = opened(source, later=True)[1]
    assert "values that are not finite numbers; the answers will be nonsense" in warning


def idle(client):
    """Until nothing waits to be checked."""
    while client.engine._host._verification.pending:
        client.take(0.01)
    client.take(0.01)


def test_the_idle_engine_finds_damage_and_goes_on(client, variant):
    damage(variant, "blk.0.attn_q.weight")
    client.load(variant, exact("cpu"))
    told = client.until(FileDamaged)
    assert told.message.startswith(f"{variant / 'model.safetensors'}: tensor blk.0.attn_q.weight ")
    assert any(e.level == "error" and e.text == told.message for e in client.of(Logged))
    assert client.ask()[0].stop_reason in ("end", "length")
    idle(client)
    assert len(client.of(FileDamaged)) == 1


def test_sound_variants_are_quiet(client, variant):
    client.load(variant, exact("cpu"))
    idle(client)
    assert client.ask()[0].stop_reason in ("end", "length")
    assert not client.of(FileDamaged)
    assert not [e for e in client.of(Logged) if e.level != "info"]


def test_commands_come_before_the_check(client, variant, monkeypatch):
    """Between any two slices the engine takes what waits: an answer ends before a check that
    never would."""
    steps = []

    def step(self):
        steps.append(1)

    monkeypatch.setattr(Verification, "step", step)
    monkeypatch.setattr(Verification, "pending", property(lambda self: True))
    client.load(variant, exact("cpu"))
    client.ask()
    before = len(steps)
    client.ask()
    assert len(client.of(GenerationFinished)) == 2
    assert len(steps) >= before


def test_a_defect_of_the_check_ends_the_check_only(client, variant, monkeypatch):
    def step(self):
        raise ValueError("planted")

    monkeypatch.setattr(Verification, "step", step)
    client.load(variant, exact("cpu"))
    assert client.ask()[0].stop_reason in ("end", "length")
    client.take()
    while not (logged := [event for event in client.of(Logged) if event.level == "error"]):
        client.until(Logged)
    assert "planted" in logged[0].text


def test_kept_variants_are_checked_when_they_are_used(tmp_path):
    source = write_tiny_llama(tmp_path / "tiny.gguf", dtype="f32")
    client = Client()
    client.engine.close()
    client.engine = type(client.engine)(None, variants=tmp_path / "kept")
    try:
        handle = client.send(LoadModel(str(source), exact("cpu")), KeepVariant("int8"))
        client.until(ModelLoaded)
        assert client.end_of(handle) == ""
        (kept,) = (tmp_path / "kept").iterdir()
        damage(kept, "blk.1.attn_v.weight")
        client.send(Reconfigure(exact("cpu", mode="int8")))
        assert "tensor blk.1.attn_v.weight is damaged" in client.until(FileDamaged).message
    finally:
        client.engine.close(10)


def test_copies_are_refused_of_what_is_damaged(variant, tmp_path):
    damage(variant, "blk.1.ffn_down.weight")
    file, _ = opened(variant)
    with pytest.raises(FileError, match=r"tensor blk.1.ffn_down.weight is damaged"):
        quantize(file, tmp_path / "copy", "fp16")
    file.close()
    assert not (tmp_path / "copy").exists()


@pytest.fixture(scope="module")
def gemma(tmp_path_factory):
    return write_tiny_gemma3n(tmp_path_factory.mktemp("gemma") / "source", **EVEN)


@pytest.mark.parametrize("view", [False, True])
def test_slices_are_refused_of_what_is_damaged(gemma, tmp_path, view):
    place = make_variant(gemma, tmp_path / "v", "int8")
    slice_model(place, tmp_path / "whole", EVEN_CUT, view=view)
    if not view:
        manifest = json.loads((tmp_path / "whole" / "variant.json").read_text())
        assert len(manifest["checksums"]["tensors"]) > 10
        assert opened(tmp_path / "whole")[1] == []
    damage(place, "per_layer_token_embd.weight")
    with pytest.raises(FileError, match=r"per_layer_token_embd.weight is damaged"):
        slice_model(place, tmp_path / "cut", EVEN_CUT, view=view)
    assert not (tmp_path / "cut").exists()


def test_views_are_checked_by_their_source(gemma, tmp_path):
    place = make_variant(gemma, tmp_path / "v", "int8")
    slice_model(place, tmp_path / "view", EVEN_CUT, view=True)
    damage(place, "blk.9.attn_q.weight")
    (warning,) = opened(tmp_path / "view")[1]
    assert f"{place / 'model.safetensors'}: tensor blk.9.attn_q.weight is damaged" in warning


def test_a_slice_of_weights_that_are_no_numbers_is_refused(tmp_path):
    source = write_tiny_gemma3n(tmp_path / "source")
    weights = source / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-4:] = np.float32(np.inf).tobytes()
    weights.write_bytes(raw)
    with pytest.raises(FileError, match="has values that are not finite numbers"):
        slice_model(source, tmp_path / "cut", Slice((), 64))
    assert not (tmp_path / "cut").exists()
