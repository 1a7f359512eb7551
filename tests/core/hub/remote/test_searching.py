"""Search and show against a hub: filters, order, what is told, and hostile descriptions."""

import time

import pytest

from llm_lite.core.errors import CancelledError, LlmLiteError
from llm_lite.core.hub.remote import searching
from llm_lite.core.hub.remote.access import never
from llm_lite.core.hub.remote.cards import first_sentences
from llm_lite.core.hub.remote.searching import SearchFilters, search, show
from tests.children import PATIENCE
from tests.core.hub.remote.pulls import content
from tests.hub.faults import Fault
from tests.hub.server import TOKEN

LLAMA = {"architecture": "llama", "total": 134_515_008, "context_length": 8192}
CARD = b"""---
license: apache-2.0
---
<div align="center"><img src="x.png"></div>

# Talker

[![badge](https://x/y.svg)](https://x)

A **small** [model](https://x) that talks about the weather, and about nothing else at all.

## Use
"""


@pytest.fixture
def models(hub):
    """Four: two that run, one of an unknown architecture, one that classifies."""
    hub.add(
        "tiny/talker-gguf",
        {"talker.Q4_0.gguf": content(5000), "talker.Q8_0.gguf": content(9000), "README.md": CARD},
        gguf=LLAMA,
        downloads=10,
        tags=["gguf", "license:apache-2.0"],
        cardData={"license": "apache-2.0"},
    )
    hub.add(
        "tiny/talker",
        {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": content(20_000)},
        config={"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"},
        safetensors={"parameters": {"BF16": 9000, "F32": 100}, "total": 9100},
        downloads=500,
        gated="manual",
        tags=["license:other"],
        cardData={"license": "other", "license_name": "talkers"},
    )
    hub.add(
        "tiny/talker-unknown",
        {"u.Q4_0.gguf": content(100)},
        gguf={"architecture": "mystery", "total": 1, "context_length": 1},
        downloads=9000,
    )
    hub.add(
        "tiny/talker-judge",
        {"config.json": b"{}", "model.safetensors": b"x"},
        pipeline_tag="text-classification",
        downloads=99,
    )
    return hub


def names(found):
    return [model.repo for model in found]


def test_by_words_the_most_downloaded_first(models):
    found = search("talker")
    assert names(found) == ["tiny/talker", "tiny/talker-gguf"]
    checkpoint, gguf = found
    assert (gguf.architecture, gguf.parameters, gguf.context) == ("llama", 134_515_008, 8192)
    assert [(file.format, file.size) for file in gguf.files] == [("Q4_0", 5000), ("Q8_0", 9000)]
    assert gguf.licence == "apache-2.0" and not gguf.gated and gguf.task == "text-generation"
    assert gguf.updated == "2025-09-01" and gguf.runnable and len(gguf.revision) == 40
    assert (checkpoint.architecture, checkpoint.licence) == ("qwen3", "talkers")
    assert checkpoint.gated and checkpoint.files[0].format == "BF16"
    assert search("no such words") == []


def test_what_does_not_run_is_told_where_it_is_asked_for(models):
    found = search("talker", SearchFilters(runnable=False))
    assert names(found)[0] == "tiny/talker-unknown"
    assert found[0].problem == "this program does not know the architecture 'mystery'"
    assert not found[0].runnable


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (SearchFilters(licence="apache-2.0"), ["tiny/talker-gguf"]),
        (SearchFilters(most_bytes=6000), ["tiny/talker-gguf"]),
        (SearchFilters(most_bytes=100), []),
        (SearchFilters(task="text-classification"), []),
        (SearchFilters(task="text-classification", runnable=False), ["tiny/talker-judge"]),
    ],
)
def test_filters(models, filters, expected):
    assert names(search("talker", filters)) == expected


def test_a_limit_and_pages(hub):
    for number in range(30):
        hub.add(f"tiny/m{number:02}", {"m.Q4_0.gguf": b"x"}, gguf=LLAMA, downloads=number)
    assert names(search("tiny", limit=3)) == ["tiny/m29", "tiny/m28", "tiny/m27"]
    assert len(hub.paths("GET", "blobs=true")) == 3  # details of these only


def test_one_that_fails_hides_no_other(models):
    models.faults.append(Fault("/api/models/tiny/talker?", status=404))
    assert names(search("talker")) == ["tiny/talker-gguf"]
    models.faults[:] = [Fault("/api/models/tiny/", status=404)]
    with pytest.raises(LlmLiteError):
        search("talker")


@pytest.mark.parametrize(
    ("words", "limit", "sentence"),
    [
        ("x" * 300, 5, "300 characters, expected at most 200 plain ones"),
        ("a\x1b", 5, "expected at most 200 plain ones"),
        ("a", 0, "limit is 0, expected 1 to 100 results"),
    ],
)
def test_words_that_are_not_searched_for(hub, words, limit, sentence):
    with pytest.raises(LlmLiteError, match=sentence):
        search(words, limit=limit)
    assert hub.asked == []


def test_a_search_is_stopped(models):
    models.faults.append(Fault("/api/models", status=503))
    with pytest.raises(CancelledError):
        search("talker", stop=lambda: True)


def test_show(models, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    model = show("tiny/talker-gguf")
    assert model.description == (
        "A small model that talks about the weather, and about nothing else at all."
    )
    assert all(headers["authorization"] == f"Bearer {TOKEN}" for _, _, headers in models.asked)
    models.faults.append(Fault("README.md", status=500))
    assert show("tiny/talker-gguf").description == ""


@pytest.mark.parametrize(
    ("card", "words"),
    [
        ("# Only a title", ""),
        ("", ""),
        ("plain words that are long enough to be a sentence of some kind", "plain words"),
        ("esc \x1b[2J and enough words to be a paragraph of its own here", "esc \\x1b[2J"),
        (
            "<script>alert('x')</script>a text with enough words behind a script that is no text",
            "a t",
        ),
        (
            "| a | b |\n|---|---|\n\n- list\n\nprose with enough words in it to be taken at last",
            "prose",
        ),
        ("[" * 5000 + "x" + "]" * 5000, ""),
        ("<" * 60_000, ""),
        ("**" * 30_000, ""),
        ("![" * 30_000, ""),
    ],
)
def test_descriptions(card, words):
    found = first_sentences(card)
    assert found.startswith(words) and len(found) <= 402
    assert bool(found) == bool(words) or not words


def test_long_descriptions_end_with_a_sentence():
    text = "This is a sentence of a long card. " * 40
    found = first_sentences(text)
    assert found.endswith("card.") and len(found) <= 400
    assert first_sentences("word " * 200).endswith("…")


@pytest.mark.parametrize(
    "details",
    [
        {"gguf": 5, "config": [], "tags": None},
        {"gguf": {"architecture": 7, "total": "x", "context_length": -5}},
        {"safetensors": {"parameters": {"BF16": "x"}, "total": None}},
        {"cardData": {"license": ["a", "b"]}},
        {"cardData": "text", "tags": [1, 2]},
        {"downloads": "many", "pipeline_tag": {}, "gated": []},
        {"lastModified": None, "config": {"quantization_config": {"quant_method": "awq"}}},
    ],
)
def test_details_of_other_types(hub, details):
    hub.add("tiny/odd", {"m.Q4_0.gguf": b"x"}, **details)
    model = show("tiny/odd")
    assert model.files[0].size == 1


def test_the_context_of_a_checkpoint(hub):
    files = {"tokenizer.json": b"{}", "model.safetensors": b"x"}
    for raw, context in [
        (b'{"max_position_embeddings": 4096}', 4096),
        (b'{"text_config": {"max_position_embeddings": 8192}}', 8192),
        (b'{"max_position_embeddings": "x"}', 0),
        (b"no JSON", 0),
    ]:
        hub.add("tiny/long", {"config.json": raw, **files}, config={"model_type": "llama"})
        assert show("tiny/long").context == context


def test_a_quantized_checkpoint_does_not_run(hub):
    hub.add(
        "tiny/awq",
        {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": b"x"},
        config={"model_type": "llama", "quantization_config": {"quant_method": "awq"}},
    )
    assert "quantized by 'awq', which is not read here" in show("tiny/awq").problem


@pytest.mark.parametrize("mark", ["<!-- ", "<script ", "```a```<style>", "![", "<a "])
def test_a_card_of_marks_without_ends_takes_no_time(mark):
    begin = time.process_time()
    first_sentences((mark * 65536)[:65536])
    assert time.process_time() - begin < 0.5  # 3 s, were each looked at to the end


def test_after_ctrl_c_nobody_waits_for_the_rest(models, monkeypatch):
    """Each question would be asked three times, with a pause between."""
    asked = []

    def read_repository(hub, name, revision="", stop=never):
        asked.append(name)
        end = time.monotonic() + PATIENCE
        while not stop() and time.monotonic() < end:
            if name == asked[0] and len(asked) > 1:
                raise KeyboardInterrupt
            time.sleep(0.01)
        raise CancelledError("stopped")

    monkeypatch.setattr(searching, "read_repository", read_repository)
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        search("", SearchFilters(task="", runnable=False))
    assert time.monotonic() - begin < PATIENCE
