"""Every number of a config.json and of a GGUF header: what it cannot be is one sentence.

Each field is given a value that is too small, one too large and one of another kind. Values go
around, so that each is tried in several fields.
"""

import json
import math
import tracemalloc

import pytest

from llm_lite.core.errors import FileError, LlmLiteError
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import read_model
from tests.make_gguf import TinyLlama, build_gguf, llama_metadata, llama_tensors
from tests.make_huggingface import LLAMA_CASES, write_tiny_gemma3n, write_tiny_llama

LARGE_INTEGERS = (1 << 40, 2**60, 10**400)
NO_INTEGERS = (True, "4", 1.5, [4], {})
# Too small, too large, of another kind.
INTEGER = ((-1, 0, -(1 << 63)), LARGE_INTEGERS, NO_INTEGERS)
INTEGER_OR_ZERO = ((-1, -(1 << 63)), LARGE_INTEGERS, NO_INTEGERS)
NUMBER = ((-1.0, 0, -(10**30), 0.0), (1e30, 10**400), (True, "1", [1.0], {}))
INTEGERS = (
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
    *("head_dim", "max_position_embeddings", "vocab_size", "sliding_window"),
)
LLAMA = {
    **dict.fromkeys((*INTEGERS, "intermediate_size"), INTEGER),
    **dict.fromkeys(("rms_norm_eps", "rope_theta"), NUMBER),
}
SCALING = {
    "original_max_position_embeddings": INTEGER,
    **dict.fromkeys(("factor", "low_freq_factor", "high_freq_factor"), NUMBER),
}
GEMMA = {
    **dict.fromkeys(INTEGERS, INTEGER),
    **dict.fromkeys(("hidden_size_per_layer_input", "altup_num_inputs"), INTEGER),
    "vocab_size_per_layer_input": INTEGER,
    **dict.fromkeys(("altup_active_idx", "num_kv_shared_layers"), INTEGER_OR_ZERO),
    **dict.fromkeys(("rms_norm_eps", "rope_local_base_freq"), NUMBER),
}
GEMMA_ALONE = {
    "final_logit_softcapping": (-1.0, 1e30, 10**400, True, "1", 1e-300),
    "activation_sparsity_pattern": (-1.0, 1.5, 10**400, True, "1", [0.5] * 5, [2.0] * 6),
    "intermediate_size": (0, -1, 1 << 40, 10**400, True, "9", [77] * 5, [10**400] * 6),
}
# These computed nonsense once, or were a traceback: an integer longer than any float.
ONCE_WRONG = [
    *(("sliding_window", -1), ("rope_theta", 0), ("rope_theta", 10**400), ("rms_norm_eps", 1e30)),
    *(("rms_norm_eps", 10**400), ("hidden_size", 10**400)),
]
MOST_BYTES = 8 << 20


def refused(path):
    """The sentence, for which no array as large as the field says was made."""
    tracemalloc.start()
    try:
        with pytest.raises(LlmLiteError) as caught:
            source = open_source(path)
            read_model(source.metadata, source.tensors, source.path)
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    return str(caught.value)


def change(folder, **changes):
    file = folder / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps(config | changes))


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return write_tiny_llama(tmp_path_factory.mktemp("llama") / "m")


@pytest.fixture(scope="module")
def gemma(tmp_path_factory):
    return write_tiny_gemma3n(tmp_path_factory.mktemp("gemma") / "m")


@pytest.fixture
def changed(request):
    """A directory whose config.json is as it was afterwards."""

    def changed(folder, **changes):
        file = folder / "config.json"
        before = file.read_text()
        request.addfinalizer(lambda: file.write_text(before))
        change(folder, **changes)
        return folder

    return changed


def cases(fields, also=()):
    """(field, value) with one value of each kind for a field, the next for the next field."""
    some = [
        (field, values[number % len(values)])
        for number, (field, kinds) in enumerate(fields.items())
        for values in kinds
    ]
    return some + [case for case in also if case not in some]


def short(value):
    return repr(value)[:20]


@pytest.mark.parametrize(("field", "value"), cases(LLAMA, ONCE_WRONG), ids=short)
def test_llama(llama, changed, field, value):
    assert field in refused(changed(llama, **{field: value}))


@pytest.mark.parametrize(("field", "value"), cases(SCALING), ids=short)
def test_rotary_scaling(llama, changed, field, value):
    scaling = LLAMA_CASES["llama3"]["rope_scaling"] | {field: value}
    assert field in refused(changed(llama, rope_scaling=scaling))


@pytest.mark.parametrize("value", [0, -1.0, 1e30, 1e-300, True, "2"])
def test_linear_scaling(llama, changed, value):
    scaling = {"rope_type": "linear", "factor": value}
    assert "factor" in refused(changed(llama, rope_scaling=scaling))


ALONE = [(field, value) for field, values in GEMMA_ALONE.items() for value in values]


@pytest.mark.parametrize(("field", "value"), cases(GEMMA, ALONE), ids=short)
def test_gemma(gemma, changed, field, value):
    assert field in refused(changed(gemma, **{field: value}))


@pytest.mark.parametrize("kind", ["full_attention", "sliding_attention"])
@pytest.mark.parametrize("value", [0, -1.0, 1e30, "2"])
def test_rotary_bases_of_gemma(gemma, changed, kind, value):
    parameters = {kind: {"rope_type": "default", "rope_theta": value}}
    assert "rope_theta" in refused(changed(gemma, rope_parameters=parameters))


def test_the_vocabulary_is_that_of_the_embedding(llama, gemma, changed):
    problem = refused(changed(llama, vocab_size=299))
    expected = "vocab_size is 299, expected 300, as many as model.embed_tokens.weight has rows"
    assert problem.endswith(f"config.json: {expected}")
    assert "vocab_size is 301, expected 300" in refused(changed(gemma, vocab_size=301))
    change(gemma, vocab_size=300)
    problem = refused(changed(gemma, vocab_size_per_layer_input=300))
    assert "vocab_size_per_layer_input is 300, expected 290" in problem


def test_a_vocabulary_that_is_not_said_is_the_embeddings(llama, changed):
    source = open_source(changed(llama, vocab_size=None))
    model = read_model(source.metadata, source.tensors, source.path)
    assert model.shape.vocabulary == 300


def test_heads_that_do_not_divide_the_width(llama, changed):
    problem = refused(changed(llama, head_dim=None, num_attention_heads=5, num_key_value_heads=5))
    assert "config.json: num_attention_heads is 5, expected a divisor of the width, 48" in problem


GGUF_INTEGERS = (
    *("block_count", "context_length", "embedding_length", "feed_forward_length"),
    *("attention.head_count", "attention.head_count_kv", "rope.dimension_count"),
)


GGUF = dict.fromkeys(GGUF_INTEGERS, ((0, -1), (1 << 40, 2**60), (True, "4", 1.5, [4])))


@pytest.mark.parametrize(("field", "value"), cases(GGUF), ids=short)
def test_integers_of_gguf(tmp_path, field, value):
    assert field in refused(gguf(tmp_path, field, value))


@pytest.mark.parametrize("field", ["attention.layer_norm_rms_epsilon", "rope.freq_base"])
@pytest.mark.parametrize(
    "value", [0.0, -1.0, math.nan, math.inf, -math.inf, 1e30, True, "1"], ids=short
)
def test_numbers_of_gguf(tmp_path, field, value):
    assert field in refused(gguf(tmp_path, field, value))


def gguf(folder, field, value):
    size = TinyLlama()
    metadata = llama_metadata(size) | {f"llama.{field}": value}
    path = folder / "m.gguf"
    path.write_bytes(build_gguf(metadata, llama_tensors(size)))
    return path


def test_numbers_of_a_variant_may_be_longer_than_any_float(tmp_path):
    """metadata.json has JSON's numbers, which have no end."""
    metadata = llama_metadata(TinyLlama()) | {"llama.rope.freq_base": 10**400}
    with pytest.raises(
        FileError, match=r"llama.rope.freq_base: expected a number from 1 to 1e\+15"
    ):
        read_model(metadata, shapes(), tmp_path)


def shapes():
    from llm_lite.core.models.description.tensors import KnownShape

    tensors = llama_tensors(TinyLlama())
    return {name: KnownShape(name, t.dtype, t.shape) for name, t in tensors.items()}
