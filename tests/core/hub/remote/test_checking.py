"""`verify` of what came from a hub: by the cache's own names, and by the hub."""

import json

import pytest

from llm_lite.cli.main import main
from llm_lite.core.hub.local.resolving import on_a_hub
from llm_lite.core.hub.remote.checking import from_hub, verify
from llm_lite.core.hub.remote.pulling import pull
from tests.core.hub.remote.pulls import REPO
from tests.hub.faults import Fault
from tests.make_huggingface import write_tiny_llama as write_checkpoint


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    """No models of this machine."""
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home" / name))


@pytest.fixture
def model(hub, tiny_llama):
    hub.add(REPO, {"tiny.Q4_1.gguf": tiny_llama})
    pull(REPO)
    return on_a_hub(REPO)


def damage(path):
    """One byte of the file that a link leads to."""
    blob = path.resolve()
    with blob.open("r+b") as file:
        file.seek(-1, 2)
        last = file.read(1)
        file.seek(-1, 2)
        file.write(bytes([last[0] ^ 1]))


@pytest.mark.parametrize("online", [False, True])
def test_a_whole_file(hub, model, online):
    asked, parts = len(hub.asked), []
    verdict = verify(model, online=online, progress=parts.append)
    assert from_hub(model) and verdict.findings == [] and verdict.notes == []
    assert (verdict.compared, verdict.nbytes) == (1, model.size)
    assert parts[-1] == 1.0
    assert (len(hub.asked) > asked) == online


@pytest.mark.parametrize("online", [False, True])
def test_a_damaged_file(model, online):
    damage(model.path)
    (finding,) = verify(model, online=online).findings
    assert f"{model.path}: is not the hub's file: its SHA-256 is " in finding
    assert model.path.resolve().name in finding


def test_a_checkpoint_of_small_and_large_files(hub, tmp_path, cache):
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    write_checkpoint(folder)
    hub.add(REPO, {path.name: path for path in folder.iterdir()})
    path = pull(REPO)
    model = on_a_hub(REPO)
    assert verify(model).compared == len(list(path.iterdir())) >= 3
    damage(path / "config.json")
    damage(path / "model.safetensors")
    found = verify(model).findings
    assert len(found) == 2 and any("Git SHA-1" in one for one in found)


def test_a_file_that_the_hub_has_no_more(hub, model):
    hub.repositories[REPO].commits[hub.repositories[REPO].head].clear()
    verdict = verify(model, online=True)
    assert verdict.compared == 0 and "nothing is known to compare it with" in verdict.notes[0]


def test_the_command(hub, model, capsys):
    assert main(["models", "verify", f"hf:{REPO}"]) == 0
    assert "all hashes are those that the cache keeps: 1 file, 0.1 MB" in capsys.readouterr().out
    assert main(["models", "verify", str(model.path), "--online", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["compared"] == 1
    damage(model.path)
    assert main(["models", "verify", model.name]) == 1
    assert "is not the hub's file" in capsys.readouterr().out
    hub.faults.append(Fault("/api/", status=404, headers={"X-Error-Code": "RepoNotFound"}))
    assert main(["models", "verify", model.name, "--online"]) == 1
    assert "there is no repository" in capsys.readouterr().err


def test_the_command_for_what_came_from_no_hub(tiny_llama, capsys):
    assert main(["models", "verify", str(tiny_llama)]) == 0
    assert "is sound" in capsys.readouterr().out
    assert main(["models", "verify", str(tiny_llama), "--online"]) == 1
    assert "did not come from a hub" in capsys.readouterr().err
