"""`llm-lite quantize` as a person starts it, and what takes the variant afterwards."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from llm_lite.cli.main import INTERRUPTED, main
from llm_lite.core.formats.variant_reader import open_variant
from tests.children import PATIENCE
from tests.cli.terminal_runs import sentence
from tests.make_gguf import TinyLlama, build_gguf, llama_metadata, llama_tensors, write_tiny_llama
from tests.make_huggingface import write_tiny_llama as write_folder
from tests.paths import ROOT

TEXT = "Whoever wants to see the sea walks down the road to the harbour and waits there. " * 12
CPU = ("--backend", "cpu")


@pytest.fixture
def source(tmp_path):
    return write_tiny_llama(tmp_path / "tiny.gguf", seed=2, dtype="f32")


def quantize(*arguments):
    return main(["quantize", *map(str, arguments)])


def test_writes_a_variant_and_tells_what_it_lost(source, tmp_path, capsys):
    assert quantize(source, tmp_path / "v", "--mode", "int4") == 0
    out, err = capsys.readouterr()
    assert "blk.0.ffn_up.weight" in out
    assert "4.514 bits a weight over the matrices" in out
    assert "100 %" in err
    assert open_variant(tmp_path / "v").mode == "int4"


def test_the_report_as_json(source, tmp_path, capsys):
    assert quantize(source, tmp_path / "v", "--mode", "int8", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["mode"] == "int8"
    assert 8.5 <= report["bits_per_weight"] < 8.6
    assert report["calibration_tokens"] == 0
    assert {"name", "shape", "stored", "format", "bits", "snr_db"} == set(report["tensors"][0])


def test_calibration_by_a_text(source, tmp_path, capsys):
    (tmp_path / "text.txt").write_text(TEXT)
    words = ("--mode", "int4", "--calibrate", tmp_path / "text.txt", "--json")
    assert quantize(source, tmp_path / "v", *words) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["calibration_tokens"] > 64
    assert "calibrating" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt", "tiny.gguf", "v"]


def test_calibration_by_a_text_of_the_models_own(source, tmp_path, capsys):
    assert quantize(source, tmp_path / "v", "--mode", "int4", "--calibrate", "self", "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["calibration_tokens"] > 64
    assert "writing a text to calibrate with" in err
    assert "calibrating" in err


@pytest.mark.parametrize("kind", ["gguf", "directory"])
def test_whatever_takes_a_model_takes_the_variant(kind, source, tmp_path, capsys):
    if kind == "directory":
        source = write_folder(tmp_path / "folder")
    (tmp_path / "text.txt").write_text(TEXT)
    variant = str(tmp_path / "v")
    assert quantize(source, variant, "--mode", "int8") == 0
    capsys.readouterr()
    assert main(["chat", variant, *CPU, "-p", "Hello", "--max-new-tokens", "4", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["tokens"]) <= 4
    bench = ("--prompt-tokens", "8", "--new-tokens", "4", "--repeat", "1", "--conversation", "0")
    assert main(["bench", variant, *CPU, *bench, "--json"]) == 0
    capsys.readouterr()
    out = tmp_path / "x.npy"
    assert main(["logits", variant, *CPU, "--text", "Hello", "--out", str(out)]) == 0
    assert np.isfinite(np.load(out)).all()
    capsys.readouterr()
    words = ("--file", str(tmp_path / "text.txt"), "--ctx", "64", "--json")
    reference = ("--reference", str(source), "--reference-mode", "int8")
    assert main(["perplexity", variant, *CPU, *words, *reference]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["kld_max"] == pytest.approx(0, abs=1e-9)
    assert report["tokens_scored"] > 100


def test_references_with_another_vocabulary_are_refused(source, tmp_path, capsys):
    (tmp_path / "text.txt").write_text(TEXT)
    other = write_tiny_llama(tmp_path / "other.gguf", vocab=301)
    words = ["perplexity", str(source), *CPU, "--file", str(tmp_path / "text.txt"), "--ctx", "64"]
    assert main([*words, "--reference", str(other)]) == 1
    assert "other.gguf: its tokenizer is another than that of" in sentence(capsys)


def test_a_source_that_lost_before_is_warned_of(tmp_path, capsys):
    source = write_tiny_llama(tmp_path / "lossy.gguf", dtype="q4_0")
    assert quantize(source, tmp_path / "v", "--mode", "int8", "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["mode"] == "int8"
    assert "llm-lite: the source is quantized already (100 % of the weights are q4_0" in err


@pytest.mark.parametrize("mode", ["int5", "as-stored", "INT4"])
def test_unknown_modes(source, tmp_path, capsys, mode):
    assert quantize(source, tmp_path / "v", "--mode", mode) == 1
    assert f"unknown weight mode {mode!r}, expected one of fp32, fp16" in sentence(capsys)


def test_destinations_that_exist_are_kept(source, tmp_path, capsys):
    place = tmp_path / "v"
    assert quantize(source, place, "--mode", "int8") == 0
    capsys.readouterr()
    assert quantize(source, place, "--mode", "int4") == 1
    assert "exists already; choose another name, or replace a variant with --force" in sentence(
        capsys
    )
    assert open_variant(place).mode == "int8"
    assert quantize(source, place, "--mode", "int4", "--force") == 0
    capsys.readouterr()
    assert open_variant(place).mode == "int4"
    assert quantize(source, source, "--mode", "int4", "--force") == 1
    assert "exists and is no directory, which alone can be replaced" in sentence(capsys)
    assert source.read_bytes()[:4] == b"GGUF"


def test_bad_sources_texts_and_places(source, tmp_path, capsys):
    place = tmp_path / "v"
    assert quantize(tmp_path / "none.gguf", place, "--mode", "int4") == 1
    assert "none.gguf: no such file" in sentence(capsys)
    assert quantize(source, tmp_path / "no" / "v", "--mode", "int4") == 1
    assert "there is no directory" in sentence(capsys)
    assert quantize(source, place, "--mode", "int4", "--calibrate", tmp_path / "no.txt") == 1
    assert "no.txt: no such file" in sentence(capsys)
    (tmp_path / "short.txt").write_text("Hi")
    assert quantize(source, place, "--mode", "int4", "--calibrate", tmp_path / "short.txt") == 1
    assert "tokens, expected at least 64" in sentence(capsys)
    assert not place.exists()


def test_a_full_disk_is_refused_before_calibrating(source, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 1_000_000})())
    missing = tmp_path / "no.txt"  # would be complained of next
    assert quantize(source, tmp_path / "v", "--mode", "int4", "--calibrate", missing) == 1
    assert "v: the disk has 1 MB free, the variant needs 4 MB" in sentence(capsys)


def test_weights_that_are_not_finite(tmp_path, capsys):
    size = TinyLlama(dtype="f32")
    tensors = llama_tensors(size)
    bad = tensors["blk.0.attn_q.weight"]
    raw = np.frombuffer(bad.data, np.float32).copy()
    raw[70] = np.nan
    changed = tensors | {"blk.0.attn_q.weight": type(bad)("f32", bad.shape, raw.tobytes())}
    source = tmp_path / "nan.gguf"
    source.write_bytes(build_gguf(llama_metadata(size), changed))
    assert quantize(source, tmp_path / "v", "--mode", "int4") == 1
    err = capsys.readouterr().err
    expected = (
        "nan.gguf: tensor blk.0.attn_q.weight: expected finite weights, found NaN or infinity"
    )
    assert expected in err.splitlines()[-1]
    assert "Traceback" not in err
    assert not (tmp_path / "v").exists()


def test_broken_variants_are_a_sentence_to_chat(source, tmp_path, capsys):
    place = tmp_path / "v"
    assert quantize(source, place, "--mode", "int4") == 0
    capsys.readouterr()
    (place / "model.safetensors").write_bytes(b"\0" * 100)
    assert main(["chat", str(place), *CPU, "-p", "Hello"]) == 1
    assert "model.safetensors: expected" in sentence(capsys)
    (place / "model.safetensors").unlink()
    assert main(["chat", str(place), *CPU, "-p", "Hello"]) == 1
    assert "model.safetensors: the file is missing from the variant" in sentence(capsys)
    manifest = json.loads((place / "variant.json").read_text())
    (place / "variant.json").write_text(json.dumps(manifest | {"layout_version": 0}))
    assert main(["chat", str(place), *CPU, "-p", "Hello"]) == 1
    assert "expected 1, found 0; quantize the source again" in sentence(capsys)


def test_a_file_of_somebody_else_in_the_destination(source, tmp_path, capsys):
    place = tmp_path / "v"
    assert quantize(source, place, "--mode", "int8") == 0
    (place / "notes.txt").write_text("mine")
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    capsys.readouterr()
    assert quantize(source, place, "--mode", "int4", "--force") == 1
    assert "notes.txt: is not listed as a file of this directory" in sentence(capsys)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.gguf", "v"]


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "llm_lite", "quantize", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Takes about a second: time enough to be ended in the middle."""
    folder = tmp_path_factory.mktemp("large")
    return write_tiny_llama(folder / "large.gguf", dtype="f32", width=512, heads=8, ffn=2048)


def wait_for_part(folder, process):
    """Until a variant is being written, or was before anybody looked."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and not process.poll():
        if process.returncode == 0 or list(folder.glob(".*.part")):
            return
        time.sleep(0.002)
    raise AssertionError(f"nothing was written: {process.returncode}")


ENDINGS = {
    signal.SIGINT: (INTERRUPTED, "interrupted"),
    signal.SIGTERM: (143, "terminated"),
    signal.SIGHUP: (129, "the terminal hung up"),
}


@pytest.mark.parametrize("number", ENDINGS)
def test_ended_in_the_middle_it_leaves_nothing_half(large, tmp_path, number):
    process = start(large, tmp_path / "v", "--mode", "int4")
    wait_for_part(tmp_path, process)
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    if process.returncode == 0:  # it was quicker
        assert open_variant(tmp_path / "v").mode == "int4"
    else:
        code, words = ENDINGS[number]
        assert process.returncode == code, err.decode()
        assert err.decode().endswith(f"llm-lite: {words}\n")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("delay", [0, 0.05, 0.2, 0.5])
def test_killed_in_the_middle_it_leaves_the_old_one(large, tmp_path, delay):
    place = tmp_path / "v"
    assert quantize(large, place, "--mode", "fp16") == 0
    process = start(large, place, "--mode", "int4", "--force")
    wait_for_part(tmp_path, process)
    time.sleep(delay)
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert open_variant(place).mode in ("fp16", "int4")
    assert quantize(large, place, "--mode", "int8", "--force") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["v"]
    assert open_variant(place).mode == "int8"
