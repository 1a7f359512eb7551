"""Models whose files change while they are used: a sentence, no number, and the program goes on."""

import shutil
import sys

import pytest

from tests.children import answer_of, run_child
from tests.make_gguf import write_tiny_llama
from tests.make_huggingface import write_tiny_gemma3n
from tests.make_huggingface import write_tiny_llama as write_llama_folder
from tests.runners import BACKENDS

CHILD = "tests.core.files.changed_files_child"
SHARD = "model-00002-of-00002.safetensors"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot be cut there")
CHANGED = "changed while it was in use: "


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("originals")
    wide = {"hidden_size": 64, "intermediate_size": 128, "head_dim": 16, "num_attention_heads": 4}
    write_tiny_llama(folder / "gguf", seed=2, dtype="f16")
    write_llama_folder(folder / "shards", dtype="BF16", shards=2, **wide)
    write_tiny_gemma3n(folder / "gemma3n")
    answer_of(CHILD, "make_variant", folder / "gguf", folder, folder / "variant", "nothing")
    return folder


# What is opened, and the file in it that changes.
KINDS = {
    "gguf": "",
    "shards": SHARD,
    "gemma3n": "model.safetensors",
    "variant": "model.safetensors",
}


@pytest.fixture
def model(originals, tmp_path):
    """A copy of a model by its kind: its path, and the file that is to change."""

    def copy(kind):
        path = tmp_path / kind
        if (originals / kind).is_dir():
            shutil.copytree(originals / kind, path)
        else:
            shutil.copyfile(originals / kind, path)
        return path, path / KINDS[kind] if KINDS[kind] else path

    return copy


@pytest.mark.vulkan
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_file_cut_in_the_middle_of_a_step(model, backend, kind):
    path, file = model(kind)
    size = file.stat().st_size
    tokens, problem, held, later = answer_of(CHILD, "answer", path, file, backend, "cut")
    expected = f"FileChangedError: {file}: {CHANGED}it had {size} bytes, now 4096"
    assert problem == later == f"{expected}; load the model again"
    assert len(tokens) == 2, "the step's own token is not there"
    assert held == 9, "nor what it read"


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_a_step_that_read_lost_pages_is_discarded(model, backend):
    """Though the file looks as before, by size and time, when the step is done."""
    path, file = model("gemma3n")
    tokens, problem, held, later = answer_of(CHILD, "answer", path, file, backend, "cut_and_mend")
    assert "could not be read while it was in use" in problem
    assert (len(tokens), held, later) == (2, 9, problem)


def test_workers_that_all_read_what_was_cut_off(tmp_path):
    wide = {"width": 256, "ffn": 512, "dtype": "f16"}
    path = write_tiny_llama(tmp_path / "wide", **wide)
    assert answer_of(CHILD, "by_workers", path, path, 50) == 50


@pytest.mark.parametrize("change", ["write", "touch"])
def test_a_file_written_in_place(model, change):
    path, file = model("gguf")
    tokens, problem, _, later = answer_of(CHILD, "answer", path, file, "cpu", change)
    size = file.stat().st_size
    assert f"{file}: {CHANGED}its {size} bytes were written again" in problem
    assert len(tokens) == 2
    assert later == problem


def test_weights_in_memory_are_told_too(model):
    """Mode switches, the lens and the tables of Gemma 3n read the file again."""
    path, file = model("gguf")
    tokens, problem, *_ = answer_of(CHILD, "answer", path, file, "cpu", "cut", "fp32")
    assert len(tokens) == 2
    assert CHANGED in problem


def test_what_is_deleted_or_replaced_goes_on(model, originals):
    answers = []
    for change in ("delete", "replace"):
        path, file = model("gguf")
        answers.append(answer_of(CHILD, "answer", path, file, "cpu", change))
        file.unlink(missing_ok=True)
    tokens, problem, held, later = answers[0]
    assert (len(tokens), problem, held, later) == (8, "", 15, "")
    assert answers[1] == answers[0]


@pytest.mark.parametrize(
    ("kind", "stage"),
    [
        ("gguf", "reading the header"),
        ("gguf", "checking the weights"),
        ("gguf", "preparing the weights"),
        ("shards", "checking the weights"),
        ("shards", "preparing the weights"),
    ],
)
def test_a_file_cut_while_it_is_loaded(model, kind, stage):
    path, file = model(kind)
    found = answer_of(CHILD, "load", path, file, stage)
    assert found.startswith(f"FileChangedError: {file}: {CHANGED}"), found


@pytest.mark.parametrize("kind", ["gguf", "shards"])
def test_no_variant_is_made_of_what_was_lost(model, tmp_path, kind):
    path, file = model(kind)
    target = tmp_path / "made"
    assert answer_of(CHILD, "make_variant", path, file, target, "nothing") == ""
    before = {part.name: part.read_bytes() for part in target.iterdir()}
    found = answer_of(CHILD, "make_variant", path, file, target)
    assert found.startswith(f"FileChangedError: {file}: {CHANGED}"), found
    assert {part.name: part.read_bytes() for part in target.iterdir()} == before
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted({"made", path.name})


@pytest.mark.parametrize("what", ["analyze", "profile", "calibrate", "lens", "gains"])
def test_nothing_is_reported_of_what_was_lost(model, tmp_path, what):
    path, file = model("gguf")
    found = answer_of(CHILD, "look", path, file, what, tmp_path)
    assert found.startswith(f"FileChangedError: {file}: {CHANGED}"), found


def test_no_cache_is_saved_of_a_model_that_changed(model, tmp_path):
    path, file = model("gguf")
    found, written = answer_of(CHILD, "look", path, file, "save", tmp_path)
    assert found.startswith(f"FileChangedError: {file}: {CHANGED}"), found
    assert not written


def test_a_saved_cache_that_is_cut_while_it_comes_back(model, tmp_path):
    path, file = model("gguf")
    found, held = answer_of(CHILD, "look", path, file, "open", tmp_path)
    assert found.startswith(f"FileChangedError: {tmp_path / 'saved'}: {CHANGED}"), found
    assert found.endswith("open it again")
    assert held == 0


def test_no_slice_is_made_of_what_was_lost(model, tmp_path):
    path, file = model("gemma3n")
    found = answer_of(CHILD, "cut_slice", path, file, tmp_path / "slice")
    assert found.startswith(f"FileChangedError: {file}: {CHANGED}"), found
    assert [p.name for p in tmp_path.iterdir()] == ["gemma3n"]


def test_the_engine_says_so_and_loads_the_model_again(model):
    path, file = model("gguf")
    found = answer_of(CHILD, "converse", path, file)
    first, problem, tokens, third, same = found
    assert (first, third) == ("length", "length")
    assert problem.startswith(f"{file}: {CHANGED}")
    assert tokens == []
    assert same


COMMANDS = {
    "logits": ("logits", "{model}", "--tokens", "1,2,3", "--out", "{tmp}/out.npy"),
    "attention": ("attention", "{model}", "--tokens", "1,2,3", "--out", "{tmp}/out.npz"),
    "perplexity": ("perplexity", "{model}", "--file", "{tmp}/text", "--ctx", "64"),
    "bench": ("bench", "{model}", "--repeat", "1", "--prompt-tokens", "8", "--new-tokens", "2"),
    "chat": ("chat", "{model}", "--prompt", "Hello"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_end_with_a_sentence(model, tmp_path, name):
    path, file = model("gguf")
    (tmp_path / "text").write_text("some words to read again and again, " * 10)
    words = [
        w.replace("{model}", str(path)).replace("{tmp}", str(tmp_path)) for w in COMMANDS[name]
    ]
    done = run_child(CHILD, "command", path, file, *words, "--backend", "cpu")
    assert done.returncode == 0, "a signal, or an exception: the status is printed"
    assert done.stdout.splitlines()[-1] == "1"
    assert f"llm-lite: {file}: {CHANGED}" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["gguf", "text"]
