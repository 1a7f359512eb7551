"""The stages of the queue of models: what they write and delete, and their sentences."""

import io
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from llm_lite.core.convert.stages import deleting, making
from llm_lite.core.convert.stages.report import StageReport
from llm_lite.core.errors import CancelledError, FileError, LlmLiteError, RequestError
from llm_lite.core.files.writing import Output
from llm_lite.core.formats.variant_reader import open_variant, read_manifest
from llm_lite.core.loading import loader
from llm_lite.core.loading.kept_variants import find
from llm_lite.core.models.description.slices import SLICE_FILE
from tests.make_gguf import write_tiny_llama
from tests.make_huggingface import SLICE_SKIP, SLICE_SOURCE, SLICE_WIDTHS, write_tiny_gemma3n


class Heard(StageReport):
    """A program that listens, until `leave`."""

    def __init__(self):
        ours, self._program = os.pipe()
        self.out = io.BytesIO()
        super().__init__(os.fdopen(ours, "rb", 0), self.out)

    @property
    def messages(self):
        return [json.loads(line) for line in self.out.getvalue().splitlines()]


@pytest.fixture
def report():
    return Heard()


@pytest.fixture
def task(tmp_path):
    """Of a stage of a tiny model."""
    path = write_tiny_llama(tmp_path / "tiny.gguf", seed=3)
    return {
        "source": "hf:owner/name:tiny.gguf",
        "path": str(path),
        "input": str(path),
        "output": str(path),
        "mode": "int8",
        "slice": "",
        "calibrate": True,
        "models": str(tmp_path / "data" / "models"),
    }


def test_a_variant_is_kept_where_the_program_finds_it(task, report):
    made = Path(making.convert(task, report)["path"])
    model = loader.open_model(task["path"], lambda *_: None, pytest.fail)
    try:
        assert find(Path(task["models"]), model, pytest.fail) == {"int8": made}
    finally:
        model.close()
    assert open_variant(made).manifest["source"]["made_of"] == "hf:owner/name:tiny.gguf"
    done = [message["done"] for message in report.messages]
    assert done == sorted(done) and done[-1] == 1000


def test_what_an_earlier_run_has_written_is_not_written_again(task, report):
    made = Path(making.convert(task, report)["path"])
    before = (made / "variant.json").stat().st_mtime_ns
    making.convert(task, report)
    assert (made / "variant.json").stat().st_mtime_ns == before
    (made / "model.safetensors").write_bytes(b"")  # damaged: it is written again
    making.convert(task, report)
    open_variant(made)


@pytest.mark.slow
def test_int4_is_calibrated_by_its_own_text_unless_a_person_says_no(task, report):
    plain = Path(making.convert({**task, "mode": "int4", "calibrate": False}, report)["path"])
    assert read_manifest(plain)["report"]["calibration_tokens"] == 0
    calibrated = Path(making.convert({**task, "mode": "int4"}, report)["path"])
    assert calibrated == plain
    assert read_manifest(plain)["report"]["calibration_tokens"] > 0


def test_a_slice_is_cut_once_and_can_be_loaded(tmp_path, task, report):
    source = write_tiny_gemma3n(tmp_path / "whole", **SLICE_SOURCE)
    table = tmp_path / "cut.json"
    table.write_text(json.dumps({"skip": SLICE_SKIP, "feed_forward": SLICE_WIDTHS}))
    asked = {**task, "input": str(source), "slice": str(table)}
    made = Path(making.cut(asked, report)["path"])
    model = loader.open_model(str(made), lambda *_: None, pytest.fail)
    layers = model.model.shape.layers
    model.close()
    assert layers == 7 and made.parent == Path(task["models"])
    assert re.fullmatch(r"whole-cut-[0-9a-f]{8}-[0-9a-f]{16}", made.name)
    variant = Path(making.convert({**task, "input": str(made)}, report)["path"])
    assert re.fullmatch(r"whole-cut-[0-9a-f]{8}-[0-9a-f]{16}-int8", variant.name)
    before = (made / "config.json").stat().st_mtime_ns
    assert making.cut(asked, report)["path"] == str(made)
    assert (made / "config.json").stat().st_mtime_ns == before


def test_another_table_of_the_same_name_is_another_slice(tmp_path, task, report):
    source = write_tiny_gemma3n(tmp_path / "whole", **SLICE_SOURCE)
    places = set()
    for widths in (SLICE_WIDTHS, (*SLICE_WIDTHS[:-1], 32)):
        (tmp_path / "cut.json").write_text(json.dumps({"skip": SLICE_SKIP, "feed_forward": widths}))
        asked = {**task, "input": str(source), "slice": str(tmp_path / "cut.json")}
        places.add(making.cut(asked, report)["path"])
    assert len(places) == 2


def test_a_slice_of_another_model_has_another_place(tmp_path, task, report):
    """Of the same shapes and name, as two fine-tunes are."""
    table = tmp_path / "cut.json"
    table.write_text(json.dumps({"skip": SLICE_SKIP, "feed_forward": SLICE_WIDTHS}))
    places = set()
    for folder in ("one", "two"):
        source = write_tiny_gemma3n(tmp_path / folder / "whole", **SLICE_SOURCE)
        if folder == "two":
            weights = source / "model.safetensors"
            raw = bytearray(weights.read_bytes())
            begin = 8 + int.from_bytes(raw[:8], "little")
            raw[begin : begin + 64] = np.full(16, 0.5, np.float32).tobytes()
            weights.write_bytes(raw)
        places.add(making.cut({**task, "input": str(source), "slice": str(table)}, report)["path"])
    assert len(places) == 2


def sentence(stage, task, report):
    with pytest.raises(LlmLiteError) as caught:
        stage(task, report)
    return str(caught.value)


def test_a_source_that_is_gone_is_named(task, report):
    Path(task["path"]).unlink()
    assert "tiny.gguf: no such file" in sentence(making.convert, task, report)


def test_an_unknown_architecture_is_named(tmp_path, task, report):
    raw = Path(task["path"]).read_bytes()
    Path(task["path"]).write_bytes(raw.replace(b"llama", b"xlama"))
    assert "xlama" in sentence(making.convert, task, report)


def test_no_room_is_said_before_the_work(task, report, monkeypatch):
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    assert "the disk has 0 MB free, the variant needs" in sentence(making.convert, task, report)
    assert list(Path(task["models"]).iterdir()) == []


def test_a_disk_that_fills_up_leaves_nothing(task, report, monkeypatch):
    def full(self, data):
        if self._file.tell() > 1 << 12:
            raise OSError(28, "No space left on device")
        return whole(self, data)

    whole = Output.write
    monkeypatch.setattr(Output, "write", full)
    assert "cannot be written: No space left" in sentence(making.convert, task, report)
    assert list(Path(task["models"]).iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path, task, report):
    (tmp_path / "data").write_text("a file")
    assert "data/models: cannot be made" in sentence(making.convert, task, report)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_named(tmp_path, task, report):
    (tmp_path / "data" / "models").mkdir(parents=True)
    (tmp_path / "data" / "models").chmod(0o500)
    assert "Permission denied" in sentence(making.convert, task, report)


def test_a_stage_that_is_stopped_leaves_nothing(task, report, monkeypatch):
    monkeypatch.setattr(report, "stop", lambda: True)
    report._stopped.set()
    monkeypatch.setattr(os, "_exit", pytest.fail)
    with pytest.raises(CancelledError):
        making.convert(task, report)
    assert list(Path(task["models"]).iterdir()) == []


@pytest.fixture
def person(tmp_path, monkeypatch):
    """Folders of a person of its own, with a model of the hub in the cache."""
    for name in ("HF_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.delenv("HUGGINGFACE_HUB_CACHE", raising=False)
    repository = tmp_path / "hf_home" / "hub" / "models--owner--name"
    snapshot = repository / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    blob = repository / "blobs" / ("b" * 64)
    write_tiny_llama(blob, seed=3)
    (snapshot / "tiny.gguf").symlink_to(f"../../blobs/{blob.name}")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("a" * 40)
    return snapshot / "tiny.gguf"


def fetched(task, path, tmp_path):
    models = tmp_path / "xdg_data_home" / "llm-lite" / "models"
    return {**task, "path": str(path), "input": str(path), "models": str(models)}


def test_a_source_goes_after_its_variant_was_read_back(task, person, report, tmp_path):
    asked = fetched(task, person, tmp_path)
    made = making.convert(asked, report)["path"]
    asked["output"] = made
    size = person.stat().st_size
    assert deleting.delete_source(asked, report)["freed"] >= size
    assert not os.path.lexists(person) and not list(tmp_path.rglob("b" * 64))
    assert deleting.delete_source(asked, report)["freed"] == 0  # begun again


def test_a_source_stays_where_its_variant_is_damaged(task, person, report, tmp_path):
    asked = fetched(task, person, tmp_path)
    made = Path(making.convert(asked, report)["path"])
    asked["output"] = str(made)
    weights = bytearray((made / "model.safetensors").read_bytes())
    weights[-100] ^= 1
    (made / "model.safetensors").write_bytes(weights)
    with pytest.raises(FileError, match="checksum"):
        deleting.delete_source(asked, report)
    assert person.exists()


def test_a_source_of_which_a_slice_is_a_view_stays(task, person, report, tmp_path):
    asked = fetched(task, person, tmp_path)
    asked["output"] = made = making.convert(asked, report)["path"]
    view = Path(made).with_name("view")
    view.mkdir()
    (view / SLICE_FILE).write_text(json.dumps({"source": str(person)}))
    with pytest.raises(RequestError, match=r"tiny is kept: the slice view \(.*\) is a view of it"):
        deleting.delete_source(asked, report)
    assert person.exists()


def test_a_source_of_which_nothing_was_made_stays(task, person, report, tmp_path):
    asked = {**fetched(task, person, tmp_path), "output": str(person)}
    with pytest.raises(RequestError, match="nothing was made of the source"):
        deleting.delete_source(asked, report)
    assert person.exists()


def test_a_deletion_is_of_the_paths_that_were_chosen(task, person, report, tmp_path):
    asked = fetched(task, person, tmp_path)
    made = Path(making.convert(asked, report)["path"])
    freed = deleting.delete({**asked, "paths": [str(made), str(person)]}, report)["freed"]
    assert freed > 0 and not made.exists() and not person.exists()
    assert deleting.delete({**asked, "paths": [str(made)]}, report)["freed"] == 0


def test_what_is_no_model_is_not_deleted(task, person, report, tmp_path):
    other = tmp_path / "letter.txt"
    other.write_text("dear")
    with pytest.raises(FileError, match="is no model that this program may delete"):
        deleting.delete({**task, "paths": [str(other)]}, report)
    assert other.exists()
