"""The command that looks for damage: every kind of source, sound and with one thing wrong."""

import json
import struct

import numpy as np
import pytest

from llm_lite.cli.main import main
from llm_lite.core.messages import FileDamaged
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.state import AppState
from tests.make_gguf import TinyLlama, build_gguf, llama_metadata, llama_tensors, write_tiny_llama
from tests.make_huggingface import write_tiny_llama as write_folder


def verify(capsys, path, *words):
    """Exit code and lines on standard output."""
    code = main(["verify", str(path), *words])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return code, out.splitlines()


@pytest.fixture
def variant(tmp_path, capsys):
    source = write_tiny_llama(tmp_path / "t.gguf", dtype="f32")
    assert main(["quantize", str(source), str(tmp_path / "v"), "--mode", "int4"]) == 0
    capsys.readouterr()
    return tmp_path / "v"


def change_json(file, **changes):
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_the_default_model_is_sound(smollm2, capsys):
    code, (line,) = verify(capsys, "smollm2-135m-instruct")
    assert code == 0
    assert line.endswith("this GGUF file is sound: 272 tensors, 98.4 MB")


def test_sound_sources(variant, tmp_path, capsys):
    shards = write_folder(tmp_path / "hf", shards=3)
    places = {
        tmp_path / "t.gguf": ("GGUF file", 0),
        shards: ("Hugging Face directory", 0),
        variant: ("variant in int4", 22),  # 20 tensors, a document, the header
        variant / "model.safetensors": ("variant in int4", 22),
    }
    for place, (kind, checksums) in places.items():
        code, (line,) = verify(capsys, place, "--json")
        report = json.loads(line)
        assert (code, report["sound"], report["findings"]) == (0, True, [])
        assert (report["kind"], report["checksums"]) == (kind, checksums)
        assert report["tensors"] >= 20
        assert report["bytes"] > 50_000


def test_an_old_variant_is_sound_and_says_so(variant, capsys):
    file = variant / "variant.json"
    content = json.loads(file.read_text())
    del content["checksums"]
    file.write_text(json.dumps(content))
    code, (line,) = verify(capsys, variant, "--json")
    report = json.loads(line)
    assert (code, report["checksums"], report["findings"]) == (0, 0, [])
    assert "was written without checksums" in report["notes"][0]
    assert main(["verify", str(variant)]) == 0
    assert "was written without checksums" in capsys.readouterr().err


def flip(file, place):
    raw = bytearray(file.read_bytes())
    raw[place] ^= 1
    file.write_bytes(raw)


def test_every_finding_of_a_variant_is_a_line(variant, capsys):
    size = (variant / "model.safetensors").stat().st_size
    for place in (size // 2, size - 64 * 4):
        flip(variant / "model.safetensors", place)
    code, lines = verify(capsys, variant)
    assert code == 1
    assert len(lines) == 2
    assert all("tensor" in line and "is damaged: expected checksum" in line for line in lines)


def test_documents_of_a_variant(variant, capsys):
    raw = (variant / "metadata.json").read_bytes()
    (variant / "metadata.json").write_bytes(raw.replace(b"Tiny", b"Tina"))
    code, (line,) = verify(capsys, variant)
    assert code == 1
    assert "metadata.json: the file is damaged: expected checksum" in line


def test_sizes_of_a_variant_are_all_told(variant, capsys):
    for name in ("metadata.json", "model.safetensors"):
        with (variant / name).open("ab") as file:
            file.write(b" ")
    code, lines = verify(capsys, variant)
    assert code == 1
    assert len(lines) == 2
    assert all("bytes, as variant.json says, found" in line for line in lines)


def gguf(path, metadata=(), **tensors):
    size = TinyLlama(dtype="f32")
    changed = llama_metadata(size) | dict(metadata)
    path.write_bytes(build_gguf(changed, llama_tensors(size) | tensors))
    return path


def test_several_faults_of_a_gguf_file_at_once(tmp_path, capsys):
    faults = {"llama.attention.head_count": 5, "tokenizer.chat_template": "{% if %}"}
    path = gguf(tmp_path / "bad.gguf", faults)
    raw = bytearray(path.read_bytes())
    raw[-4:] = struct.pack("<f", np.nan)
    path.write_bytes(raw)
    code, lines = verify(capsys, path)
    assert code == 1
    assert len(lines) == 3
    assert "llama.attention.head_count_kv: expected a divisor of the 5 heads" in lines[0]
    assert "tokenizer.chat_template: " in lines[1]
    assert lines[2].endswith("tensor output_norm.weight has values that are not finite numbers")


def test_a_truncated_file(tmp_path, capsys):
    path = gguf(tmp_path / "short.gguf")
    path.write_bytes(path.read_bytes()[:-100])
    code, (line,) = verify(capsys, path)
    assert code == 1
    assert "truncated" in line


def test_a_missing_shard_and_a_lost_vocabulary(tmp_path, capsys):
    folder = write_folder(tmp_path / "hf", shards=3)
    (folder / "tokenizer.json").write_text("{}")
    code, (line,) = verify(capsys, folder)
    assert code == 1
    assert "tokenizer.json" in line
    next(folder.glob("model-00002*")).unlink()
    code, (line,) = verify(capsys, folder)
    assert code == 1
    assert "no such file, but model.safetensors.index.json names it" in line


def test_what_is_not_there(tmp_path, capsys):
    code, (line,) = verify(capsys, tmp_path / "none.gguf", "--json")
    assert code == 1
    assert "no such file" in json.loads(line)["findings"][0]
    assert main(["verify", "nobody-knows-this"]) == 1
    assert "unknown model" in capsys.readouterr().err


def test_the_window_shows_damage_as_a_notice():
    message = "x/model.safetensors: tensor a is damaged"
    state = apply(FileDamaged(message), AppState(), 3.0)
    (notice,) = state.notices
    assert (notice.level, notice.text.rstrip(".")) == ("error", message)
