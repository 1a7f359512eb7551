"""What models are called, and which one a person means."""

import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.hub import bundled, catalog
from llm_lite.core.hub.local import listing
from tests.core.hub.local.layouts import gguf, hub_repository, listed, ollama_model, put


@pytest.fixture
def several(home):
    cache = home / ".cache/huggingface/hub"
    hub_repository(cache, "bartowski/Tiny-GGUF", {"Tiny-Q4_K_M.gguf": gguf()})
    hub_repository(cache, "unsloth/Tiny-GGUF", {"Tiny-Q4_K_M.gguf": gguf(general__name="b")})
    put(home / ".lmstudio/models/acme/Tiny/Tiny-Q4_K_M.gguf", gguf())
    ollama_model(home / ".ollama/models", "registry.ollama.ai/library/other/1b", gguf())
    return home


def test_two_of_a_name_are_told_apart_by_publisher_and_place(several):
    assert set(listed()) == {
        "tiny-q4_k_m",
        "tiny-q4_k_m@unsloth",
        "tiny-q4_k_m@lm-studio",
        "other:1b",
    }


def test_names_are_the_same_each_time(several):
    first = {name: model.path for name, model in listed().items()}
    assert {name: model.path for name, model in listed().items()} == first


@pytest.mark.parametrize(
    "text, name",
    [
        ("other:1b", "other:1b"),
        ("OTHER", "other:1b"),
        ("tiny-q4_k_m", "tiny-q4_k_m"),
        ("unsloth", "tiny-q4_k_m@unsloth"),
        ("tiny-q4_k_m@lm-studio", "tiny-q4_k_m@lm-studio"),
        ("other:1b@ollama", "other:1b"),
        ("hf:unsloth/Tiny-GGUF", "tiny-q4_k_m@unsloth"),
        ("hf:Bartowski/tiny-gguf:q4_k_m", "tiny-q4_k_m"),
        ("hf:bartowski/Tiny-GGUF:Tiny-Q4_K_M.gguf", "tiny-q4_k_m"),
    ],
)
def test_a_unique_part_is_enough(several, text, name):
    assert catalog.resolve(text) == listed()[name].path


def test_a_part_of_several_names_them(several):
    with pytest.raises(RequestError) as caught:
        catalog.resolve("tiny")
    assert "tiny-q4_k_m, tiny-q4_k_m@unsloth, tiny-q4_k_m@lm-studio" in str(caught.value)
    assert "other" not in str(caught.value)


def test_what_is_not_here_says_how_to_fetch_it(several):
    with pytest.raises(RequestError, match=r"fetch it with `llm-lite models pull a/b:c\.gguf`"):
        catalog.resolve("hf:a/b:c.gguf")
    with pytest.raises(RequestError, match="there is tiny-q4_k_m@unsloth: fetch it with"):
        catalog.resolve("hf:unsloth/Tiny-GGUF:Q8_0")


def test_a_broken_one_says_what_is_wrong_and_does_not_stand_in_the_way(several):
    put(several / ".lmstudio/models/acme/Tiny/other-broken.gguf", b"not a model")
    assert catalog.resolve("other") == listed()["other:1b"].path
    with pytest.raises(RequestError, match=r"other-broken cannot be used: .*is not a GGUF file"):
        catalog.resolve("other-broken")


def test_the_bundled_model_is_found_without_looking_at_the_disk(several, monkeypatch, tmp_path):

    def refused():
        raise AssertionError("the disk was looked through")

    monkeypatch.setattr(listing, "machine_places", refused)
    path = catalog.resolve(None)
    assert catalog.resolve("SmolLM2-135M-Instruct") == path
    assert catalog.resolve(str(path)) == path
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    assert str(catalog.resolve("here")) == "here"


def test_a_local_model_of_the_bundled_ones_name(home, monkeypatch):
    """Where the package is not installed."""
    file = put(home / ".lmstudio/models/a/b/smollm2-135m-instruct.gguf", gguf())
    known = bundled._KnownModel(bundled.DEFAULT, "SmolLM2", "MIT", "package_that_lacks", "x==1")
    monkeypatch.setattr(bundled, "_KNOWN", (known,))
    assert catalog.resolve("smollm2-135m-instruct") == file


def test_a_file_name_of_a_local_model(several):
    """As a person copies it from a page."""
    put(several / ".lmstudio/models/acme/Mine/Mine-Q8_0.gguf", gguf())
    assert catalog.resolve("Mine-Q8_0.gguf") == listed()["mine-q8_0"].path
