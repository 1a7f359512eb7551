"""What huggingface_hub itself has laid out: found as it is, deleted so that it still agrees."""

import huggingface_hub
import pytest

from llm_lite.core.hub import catalog
from llm_lite.core.hub.local.collecting import leftovers
from llm_lite.core.hub.local.disk_usage import sizes
from llm_lite.core.hub.local.removal import delete_models, removal
from tests.core.hub.local.layouts import gguf, listed
from tests.hub.server import running_hub

REPO = "acme/Tiny-GGUF"
NAMES = ("Tiny-Q4_1.gguf", "sub/Tiny-F32.gguf", "README.md")


@pytest.fixture
def fetched(home, monkeypatch):
    """(cache, repository): a hub's files, fetched by huggingface_hub; then the branch moves on."""
    for name in (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    cache = home / ".cache/huggingface/hub"
    with running_hub() as hub:
        contents = (gguf(general__name="q"), gguf(), b"---\nlicense: mit\n---\n")
        repository = hub.add(REPO, dict(zip(NAMES, contents, strict=True)))
        for name in NAMES:
            huggingface_hub.hf_hub_download(REPO, name, cache_dir=cache, endpoint=hub.url)
        repository.commit({NAMES[0]: gguf(llama__context_length=64), NAMES[1]: contents[1]})
        huggingface_hub.hf_hub_download(REPO, NAMES[0], cache_dir=cache, endpoint=hub.url)
        yield cache, repository


def test_the_newest_of_each_file_is_listed(fetched):
    _, repository = fetched
    found = listed()
    assert {name: model.context for name, model in found.items()} == {
        "tiny-q4_1": 64,
        "tiny-f32": 128,
    }
    assert found["tiny-q4_1"].revision == repository.head
    assert found["tiny-f32"].revision != repository.head
    assert catalog.resolve(f"hf:{REPO}:Tiny-Q4_1.gguf") == found["tiny-q4_1"].path
    assert catalog.resolve(f"hf:{REPO}:sub/Tiny-F32.gguf") == found["tiny-f32"].path
    assert leftovers() == []


def test_deleting_leaves_a_cache_that_huggingface_hub_understands(fetched):
    cache, _ = fetched
    before = next(place.size for place in sizes() if place.origin == "huggingface")
    plan = removal(["tiny-q4_1"])
    assert (
        delete_models(plan)
        == plan.frees
        == len(gguf(general__name="q")) + len(gguf(llama__context_length=64))
    )
    after = next(place.size for place in sizes() if place.origin == "huggingface")
    assert before - after == plan.frees
    info = huggingface_hub.scan_cache_dir(cache)
    assert not info.warnings
    files = {file.file_name for repo in info.repos for r in repo.revisions for file in r.files}
    assert files == {"Tiny-F32.gguf", "README.md"}
    assert huggingface_hub.try_to_load_from_cache(REPO, NAMES[0], cache_dir=cache) is None
    assert leftovers() == []
    delete_models(removal(["tiny-f32"]))
    assert huggingface_hub.scan_cache_dir(cache).repos == frozenset()
    assert listed() == {} and leftovers() == []
