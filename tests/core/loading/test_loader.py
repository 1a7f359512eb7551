import threading

import numpy as np
import pytest

from llm_lite.core.errors import (
    CancelledError,
    DeviceError,
    FileError,
    LlmLiteError,
    RequestError,
    UnsupportedError,
)
from llm_lite.core.loading import backends, loader
from llm_lite.core.loading.fitting import DEFAULT_CONTEXT
from llm_lite.core.messages import MODES, EngineOptions
from llm_lite.core.plan.plan import Kind
from tests.make_gguf import TinyLlama, build_gguf, llama_metadata, llama_tensors, quantized
from tests.pairs import each_pair
from tests.runners import BACKENDS, exact, running


def ignore(*_):
    pass


@pytest.fixture
def write(tmp_path):
    def write(metadata=None, tensors=None, **sizes):
        size = TinyLlama(**sizes)
        path = tmp_path / "made.gguf"
        path.write_bytes(
            build_gguf(llama_metadata(size) | (metadata or {}), tensors or llama_tensors(size))
        )
        return path

    return write


def refused(path, error=FileError):
    with pytest.raises(error) as caught:
        loader.open_model(str(path), ignore, print)
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    return text


def test_vocabulary_and_embedding_of_different_size(write):
    path = write(tensors=llama_tensors(TinyLlama(vocab=290)))
    assert "expected 290 entries" in refused(path)
    assert "found 300" in refused(path)


def test_a_tokenizer_that_is_not_known(write):
    path = write({"tokenizer.ggml.model": "klingon"})
    assert "'klingon'" in refused(path, UnsupportedError)


@pytest.mark.parametrize("template", ["{% for %}", "x" * 200_000])
def test_a_broken_chat_template(write, template):
    text = refused(write({"tokenizer.chat_template": template}))
    assert "tokenizer.chat_template" in text


def test_other_architectures(write):
    assert "'mamba'" in refused(write({"general.architecture": "mamba"}), UnsupportedError)


def test_a_rotary_scaling_that_is_not_known(write):
    text = refused(write({"llama.rope.scaling.type": "dynamic"}))
    assert "rope.scaling.type: expected none, linear, yarn or longrope, found 'dynamic'" in text


@pytest.mark.parametrize("named", [None, "klingon"])
def test_a_pre_tokenizer_that_is_missing_or_not_known_is_warned_of(tmp_path, named):
    size, notes = TinyLlama(), []
    metadata = llama_metadata(size) | ({"tokenizer.ggml.pre": named} if named else {})
    if named is None:
        del metadata["tokenizer.ggml.pre"]
    path = tmp_path / "made.gguf"
    path.write_bytes(build_gguf(metadata, llama_tensors(size)))
    loader.open_model(str(path), ignore, notes.append).close()
    (note,) = notes
    assert (f"'{named}'" if named else "names no pre-tokenizer") in note
    assert note.endswith("the default is taken, and answers may be worse")


def test_a_wrong_shape_and_a_missing_tensor(write):
    tensors = llama_tensors(TinyLlama())
    values = np.zeros((64, 32), np.float32)
    assert "blk.1.ffn_up.weight: expected shape (96, 64), found (64, 32)" in refused(
        write(tensors=tensors | {"blk.1.ffn_up.weight": quantized("q8_0", values)})
    )
    del tensors["blk.1.ffn_up.weight"]
    assert "tensor blk.1.ffn_up.weight is missing" in refused(write(tensors=tensors))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_warned_of(write, value):
    bad = np.ones((96, 64), np.float32)
    bad[95, 63] = value
    tensors = llama_tensors(TinyLlama()) | {"blk.0.ffn_up.weight": quantized("f16", bad)}
    warnings = []
    path = write(tensors=tensors)
    loader.open_model(str(path), ignore, warnings.append).close()
    (warning,) = warnings
    assert str(path) in warning
    assert "blk.0.ffn_up.weight" in warning


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("activations", ["a32", "a8"])
def test_a_plan_names_the_formats_that_its_weights_have(tiny_llama, monkeypatch, mode, activations):
    """In every mode: an executor that trusts the plan must not read other blocks."""
    given = {}
    make = backends.make_executor

    def remember(choice, program, weights, *rest):
        given.update(weights)
        return make(choice, program, weights, *rest)

    monkeypatch.setattr(backends, "make_executor", remember)
    with running(tiny_llama, exact(mode=mode, activations=activations)) as runner:
        stored = runner.model_file.file.tensors
        for plan in runner.executor.program.plans:
            for tensor in plan.tensors:
                if tensor.kind is Kind.WEIGHT:
                    assert tensor.dtype == given[tensor.name].dtype
            quantizes = any(op.name == "quantize" for op in plan.ops)
            assert quantizes == (activations == "a8" and mode not in ("fp32", "fp16"))
        assert runner.executor.weight_bytes == sum(w.nbytes for w in given.values())
        assert (given["token_embd.weight"].dtype == stored["token_embd.weight"].dtype) == (
            mode == "as-stored"
        )


@each_pair("backend, mode, activations", BACKENDS, MODES, ("a32", "a8"))
def test_every_mode_computes_about_the_same(tiny_llama, device, backend, mode, activations):
    tokens = [5, 60, 200, 7]
    with running(tiny_llama) as runner:
        expected = runner.session.prefill(tokens)
    options = exact(backend, mode=mode, activations=activations)
    with running(tiny_llama, options, device=device) as runner:
        logits = runner.session.prefill(tokens)
    correlation = np.corrcoef(expected, logits)[0, 1]
    assert correlation > (0.9 if mode == "int4" else 0.999)


@pytest.mark.parametrize("context", [-1, 129, 1 << 40])
def test_a_context_that_cannot_be(tiny_llama, context):
    with (
        pytest.raises(RequestError, match=f"128 tokens.* found {context}"),
        running(tiny_llama, exact(context=context)),
    ):
        pass


def test_the_context_of_a_model_trained_for_a_long_one(write):
    path = write({"llama.context_length": 1 << 20})
    with running(path) as runner:
        assert runner.session.context == DEFAULT_CONTEXT
    with running(path, exact(context=10_000)) as runner:
        assert runner.session.context == 10_000


@pytest.mark.parametrize("backend", [b for b in BACKENDS if b != "vulkan"])
def test_a_cache_beyond_all_memory(write, backend):
    """16 tensors of 8 TiB: more than the processor can address, however generous the system."""
    path = write({"llama.context_length": 1 << 30}, layers=8, kv_heads=4, head_dim=512)
    with (
        pytest.raises(
            LlmLiteError,
            match=r"need [\d.]+ GiB, but this machine has .* to spare: a context of \d+ tokens",
        ),
        running(path, exact(backend, context=1 << 30)),
    ):
        pass


def held_back(monkeypatch):
    """A vocabulary that is read as soon as the returned event is set."""
    go_on, read = threading.Event(), loader._read_text

    def late(*arguments):
        go_on.wait()
        return read(*arguments)

    monkeypatch.setattr(loader, "_read_text", late)
    return go_on


def test_the_vocabulary_is_read_beside_the_weights(tiny_llama, monkeypatch):
    go_on = held_back(monkeypatch)
    closed_and_made(monkeypatch, go_on.set)
    file = loader.open_model(str(tiny_llama), ignore, print, later=True)
    runner = loader.start(file, exact(), None, ignore)
    assert go_on.is_set(), "the executor is there before the vocabulary"
    assert runner.model_file.tokenizer.encode("the")
    runner.close()
    file.close()


def test_a_tokenizer_that_failed_before_the_weights_were_read(write, monkeypatch):
    _, made = closed_and_made(monkeypatch)
    path = write({"tokenizer.ggml.model": "klingon"})
    file = loader.open_model(str(path), ignore, print, later=True)
    for attempt in (file.text.result, lambda: loader.start(file, exact(), None, ignore)):
        with pytest.raises(UnsupportedError, match="'klingon'"):
            attempt()
    assert not made
    file.close()


def test_a_tokenizer_that_fails_after_the_weights_were_read(write, monkeypatch):
    go_on = held_back(monkeypatch)
    closed, made = closed_and_made(monkeypatch, go_on.set)
    path = write({"tokenizer.ggml.model": "klingon"})
    file = loader.open_model(str(path), ignore, print, later=True)
    with pytest.raises(UnsupportedError, match="'klingon'"):
        loader.start(file, exact(), None, ignore)
    assert closed == made and len(made) == 1
    file.close()


def closed_and_made(monkeypatch, then=lambda: None):
    """Executors, as they are made and closed from now on; `then` is called when one is made."""
    closed, made = [], []
    make = backends.make_executor

    def watched(*arguments):
        executor = make(*arguments)
        close = executor.close
        executor.close = lambda: (closed.append(executor), close())
        made.append(executor)
        then()
        return executor

    monkeypatch.setattr(backends, "make_executor", watched)
    return closed, made


@pytest.mark.parametrize("at", [0.0, 0.2, 0.26, 0.4, 0.99])
def test_cancelling_anywhere_lets_everything_go(tiny_llama, monkeypatch, at):
    closed, made = closed_and_made(monkeypatch)

    def progress(stage, fraction):
        if fraction >= at:
            raise CancelledError("cancelled")

    with pytest.raises(CancelledError):
        loader.start(loader.open_model(str(tiny_llama), progress, print), exact(), None, progress)
    assert closed == made
    assert len(made) == (at == 0.99)


def test_a_device_that_does_not_exist(tiny_llama):
    options = EngineOptions(backend="vulkan", device=4711)
    with pytest.raises(DeviceError, match="4711"), running(tiny_llama, options):
        pass


@pytest.mark.parametrize(("mode", "told"), [("int4", True), ("int8", False), ("as-stored", False)])
def test_weights_that_are_rounded_twice_are_told(mode, told, write):
    path = write(dtype="q4_0", width=64, heads=2, kv_heads=2, ffn=64)
    with running(path, exact("cpu", mode=mode)) as runner:
        assert ("of the weights have about as few bits in the file as int4" in runner.note) is told
        assert set(runner.model_info.rounded_again) == {"int4"}
        assert 0 < runner.model_info.again_error["int4"] < 1
        assert ("changes them by" in runner.note) is told
