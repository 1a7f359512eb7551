"""A variant that a person kept: written by the engine, found again and mapped, if it is whole."""

import os
from pathlib import Path

import numpy as np
import pytest

from llm_lite.core.engine.engine import Engine
from llm_lite.core.errors import FileError
from llm_lite.core.files import folders
from llm_lite.core.loading import loader
from llm_lite.core.loading.kept_variants import find, open_weights, place_of, remove
from llm_lite.core.messages import (
    CommandProgress,
    DropVariant,
    ExecutorChanged,
    KeepVariant,
    LoadModel,
    ModelLoaded,
    Reconfigure,
    VariantDropped,
    VariantKept,
)
from tests.core.engine_client import PATIENCE, Client
from tests.make_gguf import write_tiny_llama
from tests.make_huggingface import write_tiny_llama as write_checkpoint
from tests.runners import exact


@pytest.fixture
def client(tmp_path):
    made = Client()
    made.engine.close()
    made.engine = Engine(None, variants=tmp_path / "kept")
    yield made
    made.engine.close(10)


def opened(path, folder=None):
    file = loader.open_model(str(path), lambda *_: None, pytest.fail)
    if folder is not None:
        file.kept.update(find(folder, file, pytest.fail))
    return file


def logits(file, mode):
    runner = loader.start(file, exact("cpu", mode=mode), None, lambda *_: None)
    try:
        return runner.session.prefill([1, 2, 3, 4])
    finally:
        runner.close()


def keep(client, path, mode="int4"):
    client.send(LoadModel(str(path), exact("cpu", mode=mode)))
    client.until(ModelLoaded)
    handle = client.send(KeepVariant(mode))
    kept = client.until(VariantKept)
    assert client.end_of(handle) == ""
    return kept


def switched(client, mode):
    client.send(Reconfigure(exact("cpu", mode=mode)))
    return client.until(ExecutorChanged)


def test_kept_by_the_engine_and_mapped_at_the_next_switch(client, tiny_llama, tmp_path):
    kept = keep(client, tiny_llama)
    assert kept.mode == "int4" and kept.nbytes > 0
    assert client.of(CommandProgress)[-1].fraction == pytest.approx(1.0)
    switched(client, "fp16")
    changed = switched(client, "int4")
    assert changed.model.kept == {"int4": kept.path}
    again = opened(tiny_llama, tmp_path / "kept")
    assert {mode: str(path) for mode, path in again.kept.items()} == {"int4": kept.path}
    assert (logits(again, "int4") == logits(opened(tiny_llama), "int4")).all()


def test_those_of_earlier_versions_are_found_in_their_folder(client, tiny_llama, tmp_path):
    kept = Path(keep(client, tiny_llama).path)
    (tmp_path / "variants").mkdir()
    older = kept.rename(tmp_path / "variants" / kept.name)
    assert find(tmp_path / "kept", opened(tiny_llama), pytest.fail) == {"int4": older}
    newer = Path(keep(client, tiny_llama).path)
    assert find(tmp_path / "kept", opened(tiny_llama), pytest.fail) == {"int4": newer}


def test_a_checkpoint_in_the_hub_cache_has_its_repositorys_name(tmp_path):
    snapshots = tmp_path / "models--owner--Tiny-Llama" / "snapshots"
    source = write_checkpoint(snapshots / ("a" * 40))
    file = opened(source)
    assert place_of(tmp_path, file, "int8").name.startswith("Tiny-Llama-")
    assert file.file.metadata["general.name"] == "Tiny-Llama"
    source.rename(snapshots / ("b" * 40))  # another commit, the same weights
    again = opened(snapshots / ("b" * 40))
    assert place_of(tmp_path, again, "int8") == place_of(tmp_path, file, "int8")


def test_dropped_by_the_engine_and_made_in_memory_again(client, tiny_llama, tmp_path):
    kept = keep(client, tiny_llama)
    switched(client, "fp16")
    switched(client, "int4")  # mapped from the variant that goes
    handle = client.send(DropVariant("int4"))
    dropped = client.until(VariantDropped)
    assert (dropped.mode, dropped.nbytes >= kept.nbytes) == ("int4", True)
    assert client.end_of(handle) == ""
    assert list((tmp_path / "kept").iterdir()) == []
    _, tokens = client.ask()
    assert tokens, "the weights in use are still there"
    switched(client, "fp16")
    assert switched(client, "int4").model.kept == {}
    handle = client.send(DropVariant("int4"))
    assert "no variant in int4 is kept" in client.end_of(handle)


def test_what_cannot_be_removed_stays(client, tiny_llama, tmp_path, monkeypatch):
    kept = Path(keep(client, tiny_llama).path)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(folders, "rename_new", refuse)
    with pytest.raises(FileError, match=r"cannot be removed: Permission denied"):
        remove(kept)
    monkeypatch.undo()
    assert find(tmp_path / "kept", opened(tiny_llama), pytest.fail) == {"int4": kept}
    (kept / "notes").write_text("mine")
    with pytest.raises(FileError, match=r"notes: is not listed"):
        remove(kept)
    (kept / "notes").unlink()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "rmdir", lambda path: (_ for _ in ()).throw(KeyboardInterrupt))
        patch.setattr(Path, "unlink", lambda path, **_: None)
        remove(kept)
    (left,) = (tmp_path / "kept").iterdir()
    assert left.name.endswith(".gone"), "its name is gone"
    assert find(tmp_path / "kept", opened(tiny_llama), pytest.fail) == {}
    assert not left.exists(), "and the rest goes with the next start"
    with pytest.raises(FileError, match="expected a variant"):
        remove(tmp_path)


def test_the_weights_lie_in_the_file(client, tiny_llama, tmp_path):
    keep(client, tiny_llama, "int8")
    file = opened(tiny_llama, tmp_path / "kept")
    stages = []
    weights, _ = loader.converted(file, "int8", lambda stage, fraction: stages.append(stage))
    assert stages == ["mapping the variant on disk"]
    for weight in weights.values():
        assert not weight.data.flags.owndata and not weight.data.flags.writeable


def test_a_damaged_one_is_left_alone(client, tiny_llama, tmp_path):
    kept = keep(client, tiny_llama)
    weights = next(tmp_path.glob("kept/*/model.safetensors"))
    os.truncate(weights, weights.stat().st_size - 64)
    warnings = []
    file = opened(tiny_llama)
    assert find(tmp_path / "kept", file, warnings.append) == {}
    assert len(warnings) == 1 and kept.path in warnings[0] and "left alone" in warnings[0]


def test_another_model_does_not_find_it(client, tiny_llama, tmp_path):
    kept = keep(client, tiny_llama)
    other = write_tiny_llama(tmp_path / tiny_llama.name, seed=3)
    file = opened(other)
    assert find(tmp_path / "kept", file, pytest.fail) == {}
    assert place_of(tmp_path / "kept", file, "int4").name != kept.path.rpartition("/")[2]


def test_a_mode_or_tensors_that_differ_are_refused(client, tiny_llama, tmp_path):
    kept = keep(client, tiny_llama)
    with pytest.raises(FileError, match="mode: expected int8, found int4"):
        open_weights(kept.path, opened(tiny_llama), "int8")
    wide = write_tiny_llama(tmp_path / "wide.gguf", width=128)
    with pytest.raises(FileError, match="not those of"):
        open_weights(kept.path, opened(wide), "int4")


def test_nowhere_to_keep_it_is_a_sentence(tiny_llama, tmp_path):
    for folder in (None, tmp_path / "file" / "kept"):
        (tmp_path / "file").write_text("")
        client = Client()
        client.engine.close(PATIENCE)
        client.engine = Engine(None, variants=folder)
        client.send(LoadModel(str(tiny_llama), exact("cpu", mode="int8")))
        client.until(ModelLoaded)
        handle = client.send(KeepVariant("int8"))
        words = client.end_of(handle)
        assert ("no folder" if folder is None else "cannot be made") in words
        client.engine.close(10)


def test_values_are_those_of_memory(tiny_llama, tmp_path, client):
    keep(client, tiny_llama)
    mapped = opened(tiny_llama, tmp_path / "kept")
    made, _ = loader.converted(opened(tiny_llama), "int4", lambda *_: None)
    for name, weight in loader.converted(mapped, "int4", lambda *_: None)[0].items():
        assert weight.dtype == made[name].dtype
        assert np.array_equal(weight.data.ravel(), made[name].data.ravel()), name
