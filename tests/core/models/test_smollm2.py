"""The real model against transformers' float32 results; fixtures/make_smollm2.py made these."""

import json

import numpy as np
import pytest

from llm_lite.core.generation import prompt
from llm_lite.core.generation.steps import generate
from llm_lite.core.messages import ChatMessage, SamplingOptions
from tests.paths import FIXTURES
from tests.runners import BACKENDS, exact, running

EXPECTED = json.loads((FIXTURES / "smollm2_texts.json").read_text("utf-8"))
TEXTS = {text["name"]: text for text in EXPECTED["texts"]}
TOLERANCE = 2e-3
# The software driver and NumPy are slow: the shortest text stands for all there.
CASES = [
    pytest.param(backend, name, id=f"{backend}-{name}")
    for backend in BACKENDS
    for name in (TEXTS if backend == "cpu" else ("whitespace",))
]
GREEDY_CASES = [
    pytest.param(backend, name, id=f"{backend}-{name}")
    for backend in BACKENDS
    for name in (("chat", *TEXTS) if backend == "cpu" else ("chat",))
]
MOST_GREEDY = {"numpy": 8, "vulkan": 8}  # tokens


@pytest.fixture(scope="module")
def reference():
    with np.load(FIXTURES / "smollm2_logits.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def runner(request, smollm2):
    """One is alive at a time: pytest groups tests by it. Validation watches the Vulkan device."""
    device = request.getfixturevalue("_shared_device") if request.param == "vulkan" else None
    with running(smollm2, exact(request.param), device=device, every_output=True) as started:
        yield started


def on_backends(names, cases):
    return pytest.mark.parametrize(names, cases, indirect=["runner"], scope="module")


ON_CPU = on_backends(["runner"], [["cpu"]])


@pytest.fixture
def silent(request):
    """No validation message in a test that uses the Vulkan device."""
    if "vulkan" in request.node.callspec.id:
        request.getfixturevalue("device")


@on_backends(["runner", "name"], CASES)
def test_logits(runner, reference, silent, name, request):
    found = runner.executor_info
    assert (found.backend, found.activations) == (request.node.callspec.params["runner"], "a32")
    logits = runner.session.logits(TEXTS[name]["token_ids"])
    exact_columns = reference[f"{name}_columns"]
    assert np.abs(logits[:, reference["columns"]] - exact_columns).max() <= TOLERANCE
    assert np.abs(logits[-1] - reference[f"{name}_last"]).max() <= TOLERANCE
    top = logits.max(axis=1)
    lse = top + np.log(np.exp(logits - top[:, None]).sum(axis=1, dtype=np.float64))
    assert np.abs(lse - reference[f"{name}_logsumexp"]).max() <= TOLERANCE
    best = logits[np.arange(len(logits)), reference[f"{name}_argmax"]]
    assert (top - best).max() <= 2 * TOLERANCE, "the best token is the same, or as good"


@on_backends(["runner", "name"], GREEDY_CASES)
def test_greedy_continuation(runner, silent, name):
    session = runner.session
    expected = EXPECTED["chat_greedy"] if name == "chat" else TEXTS[name]["greedy"]
    ids = expected["ids"][: MOST_GREEDY.get(runner.executor_info.backend)]
    sampling = SamplingOptions(temperature=0.0, repetition_penalty=1.0, max_new_tokens=len(ids))
    session.clear()
    choices = generate(session, expected["prompt_ids"], sampling, frozenset())
    assert [choice.token for choice in choices] == ids


@ON_CPU
@pytest.mark.parametrize("name", TEXTS)
def test_token_ids(runner, name):
    tokenizer = runner.model_file.tokenizer
    text = TEXTS[name]
    assert tokenizer.encode(text["text"]) == text["token_ids"]
    assert tokenizer.decode(text["token_ids"]) == text["text"]


@ON_CPU
@pytest.mark.parametrize("index", range(len(EXPECTED["chats"])))
def test_chats(runner, index):
    chat = EXPECTED["chats"][index]
    file = runner.model_file
    render = file.template.render(
        chat["messages"], add_generation_prompt=chat["add_generation_prompt"]
    )
    assert render == chat["text"]
    if chat["add_generation_prompt"]:
        turns = [ChatMessage(m["role"], m["content"]) for m in chat["messages"]]
        assert prompt.encode_chat(file.tokenizer, file.template, turns).ids == chat["token_ids"]


@ON_CPU
def test_numbers_of_the_model(runner):
    info = runner.model_info
    assert (info.name, info.architecture) == ("SmolLM2 135M Instruct", "llama")
    assert (info.layers, info.heads, info.kv_heads, info.head_dim) == (30, 9, 3, 64)
    assert (info.width, info.feed_forward, info.vocabulary) == (576, 1536, 49152)
    assert (info.context, info.trained_context) == (8192, 8192)
    assert info.parameters == 134_515_008
    assert info.file_bytes == EXPECTED["model_bytes"]
    assert info.kv_bytes == 2 * 30 * 8192 * 192 * 4
    assert set(info.stored_formats) == {"q4_1", "q8_0", "f32"}
