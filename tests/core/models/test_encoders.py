"""BERT and RoBERTa beside transformers and sentence-transformers; what is refused of them."""

import json
from functools import partial

import numpy as np
import pytest
from tokenizers import Tokenizer

from llm_lite.core.convert.quantizing import quantize
from llm_lite.core.errors import LlmLiteError, RequestError
from llm_lite.core.loading import loader
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import read_model
from llm_lite.core.records import replace
from llm_lite.core.text.sentencepiece.model_file import read_sentencepiece
from llm_lite.core.text.special_tokens import separator_of
from tests.encoder_checks import TOLERANCE, check_case, started, stored, write_case, write_gguf
from tests.encoder_families import family_of
from tests.pairs import on_executors
from tests.paths import FIXTURES
from tests.runners import exact
from tests.seq2seq_checks import write_unigram

BERT, ROBERTA, DISTILBERT = map(family_of, ("bert", "roberta", "distilbert"))
EMBEDDING_GEMMA = family_of("embedding_gemma")
# Hidden states of random weights are this far apart in a mode, and not much less: rounding is real.
MODES = {"fp16": 2e-2, "int8": 0.3, "int4": 2.0}


@on_executors((BERT, ROBERTA, DISTILBERT, EMBEDDING_GEMMA))
def test_reference(family, case, backend, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    check_case(family, case, backend, tmp_path / "m", device)


@pytest.mark.parametrize(
    ("family", "case"), [(BERT, "masked"), (BERT, "plain"), (ROBERTA, "masked")]
)
def test_gguf_holds_the_same_encoder(family, case, tmp_path):
    """And says its pooling: the first token's state."""
    known = stored(family.name, case)
    runner = started(write_gguf(family, case, tmp_path / "m.gguf"), "numpy")
    try:
        tokens = known["tokens"].tolist()
        if case != "plain":  # whose ReLU no GGUF file tells of
            assert np.abs(runner.session.hidden(tokens) - known["hidden"]).max() < TOLERANCE
        first = runner.session.hidden(tokens)[0]
        found = runner.embed_tokens([tokens])[0]
        assert np.abs(found - first / np.linalg.norm(first)).max() < TOLERANCE
        assert not runner.session.has_head
        with pytest.raises(RequestError, match="no masked-token head"):
            runner.session.logits(tokens)
    finally:
        runner.close()
        runner.model_file.close()


@pytest.mark.parametrize(("value", "shown"), [([None], "a list of 1"), ("yes", "'yes'"), (1, "1")])
def test_a_switch_of_its_tokenizer_is_true_or_false(value, shown, tmp_path):
    """And is told as a file has it, not as Python does."""
    folder = write_case(BERT, "plain", tmp_path)
    (folder / "tokenizer_config.json").write_text(json.dumps({"strip_accents": value}))
    file = loader.open_model(str(folder), lambda *_: None, lambda text: None, later=True)
    try:
        with pytest.raises(LlmLiteError, match=f"strip_accents is {shown}, expected true or false"):
            _ = file.tokenizer
    finally:
        file.close()


@pytest.mark.parametrize("number", ["²", "٣", "-1", "1" * 5000, "", "1.0"])
def test_a_key_that_is_no_id_of_a_token_is_passed_over(number, tmp_path):
    """Of added_tokens_decoder, where another key is one, or the vocabulary knows the token."""
    folder = write_case(BERT, "plain", tmp_path)
    expected = separator_of(folder)
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps({"added_tokens_decoder": {number: {"content": "[SEP]"}}}))
    assert separator_of(folder) == expected


def test_gguf_of_xlm_r_cuts_texts_as_its_library_does(tmp_path):
    """Unigram's pieces between <s> and </s>; pairs as <s> A </s></s> B </s>."""
    known = stored("roberta", "xlm")
    vocabulary = partial(write_unigram, encodes=True)
    runner = started(write_gguf(ROBERTA, "xlm", tmp_path / "m.gguf", vocabulary), "cpu")
    try:
        hidden = runner.session.hidden(known["tokens"].tolist())
        assert np.abs(hidden - known["hidden"]).max() < TOLERANCE
        model = read_sentencepiece(FIXTURES / "marian_tokenizer" / "source.spm")
        pieces = [piece for piece, _ in model.pieces]
        begin, end, tokenizer = (
            pieces.index("<s>"),
            pieces.index("</s>"),
            runner.model_file.tokenizer,
        )
        library = Tokenizer.from_str(
            replace(model, pieces=model.pieces[:262]).tokenizer_json().decode()
        )
        for text in ("Where is the station?", "  the  cat, 12!", "한국어 words"):
            ids = tokenizer.encode(text, add_special=True)
            assert ids == [begin, *library.encode(text).ids, end]
        assert tokenizer.around_pair == ((begin,), (end, end), (end,))
    finally:
        runner.close()
        runner.model_file.close()


@pytest.mark.parametrize("mode", MODES)
def test_variants_keep_how_vectors_are_made(mode, tmp_path):
    """Quantized on disk: nearly the same states, the same pooling, dense layer and tokenizer."""
    folder = write_case(BERT, "several", tmp_path / "m")
    file = loader.open_model(str(folder), lambda *_: None, lambda text: None)
    try:
        quantize(file, tmp_path / mode, mode)
        identity = file.tokenizer.identity
    finally:
        file.close()
    known, runner = stored("bert", "several"), started(tmp_path / mode, "numpy")
    try:
        tokens = known["tokens"].tolist()
        error = np.abs(runner.session.hidden(tokens) - known["hidden"]).max()
        assert 1e-5 < error < MODES[mode]
        assert runner.embedding.poolings == ("cls", "max", "mean")
        assert runner.embed_tokens([tokens]).shape == (1, 31)
        assert runner.model_file.tokenizer.identity == identity
    finally:
        runner.close()
        runner.model_file.close()


def test_what_is_not_used_is_told(tmp_path):
    source = open_source(write_case(BERT, "pretraining", tmp_path))
    assert [note.partition(" (")[0] for note in source.notes] == [
        "the pooler",
        "the head for the next sentence",
    ] or len(source.notes) == 2


def test_old_names_of_norms(tmp_path):
    """Checkpoints of 2018 call a norm's weight gamma."""
    folder = write_case(BERT, "masked", tmp_path)
    raw = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = raw[8 : 8 + size].replace(b"LayerNorm.weight", b"LayerNorm.gamma")
    header = header.replace(b"LayerNorm.bias", b"LayerNorm.beta").ljust(size)
    (folder / "model.safetensors").write_bytes(raw[:8] + header + raw[8 + size :])
    runner = started(folder, "numpy")
    try:
        known = stored("bert", "masked")
        tokens = known["tokens"].tolist()
        assert np.abs(runner.session.logits(tokens) - known["logits"]).max() < TOLERANCE
    finally:
        runner.close()
        runner.model_file.close()


BAD = [
    ({"position_embedding_type": "relative_key"}, "relative positions are not known here"),
    ({"is_decoder": True}, "is_decoder is true: such a decoder is not known here"),
    ({"hidden_act": "mish"}, "hidden_act is 'mish', expected gelu, gelu_new, relu or silu"),
    ({"max_position_embeddings": 50}, "position_embd.weight: expected shape"),
    ({"num_attention_heads": 5}, "num_attention_heads is 5, expected a divisor of the width"),
    ({"vocab_size": 263}, "vocab_size is 263, expected 262"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_bad_configs(changes, message, tmp_path):
    folder = write_case(BERT, "masked", tmp_path, **changes)
    with pytest.raises(LlmLiteError, match=message):
        source = open_source(folder)
        read_model(source.metadata, source.tensors, source.path)


BAD_MODULES = [
    ({"path": "1_Pooling", "type": "x.Router"}, "a module of type 'x.Router' is not known here"),
    ({"path": "../1_Pooling", "type": "x.Pooling"}, "leads out of the folder"),
    ({"path": 3, "type": "x.Pooling"}, "expected an object with a type and a path"),
    (7, "has 7, expected an object with a type and a path"),
]


@pytest.mark.parametrize(("module", "message"), BAD_MODULES)
def test_bad_modules(module, message, tmp_path):
    folder = write_case(BERT, "mean", tmp_path)
    (folder / "modules.json").write_text(json.dumps([module]))
    with pytest.raises(LlmLiteError, match=message):
        open_source(folder)


def test_pooling_of_both_spellings(tmp_path):
    """A list of names since version 5; flags before."""
    folder = write_case(BERT, "mean", tmp_path)
    for config, expected in (
        ({"pooling_mode": ["cls", "lasttoken"]}, ("cls", "last")),
        ({"pooling_mode_weightedmean_tokens": True}, ("weighted_mean",)),
    ):
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
        source = open_source(folder)
        model = read_model(source.metadata, source.tensors, source.path)
        assert model.embedding.poolings == expected
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": "best"}))
    with pytest.raises(LlmLiteError, match="expected some of cls, max, mean"):
        source = open_source(folder)
        read_model(source.metadata, source.tensors, source.path)


def test_an_encoder_does_not_answer(tmp_path):
    file = loader.open_model(
        str(write_case(BERT, "masked", tmp_path)), lambda *_: None, lambda text: None
    )
    try:
        with pytest.raises(RequestError, match=r"is an encoder, which writes no text.*embed.*fill"):
            loader.start(file, exact(), None, lambda *_: None)
    finally:
        file.close()
