"""T5, and the logits of Marian, beside transformers."""

from __future__ import annotations

import numpy as np
import pytest
import tokenizers

from llm_lite.core.errors import FileError
from llm_lite.core.formats.gguf_reader import open_gguf, read_metadata
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import ARCHITECTURES
from llm_lite.core.records import replace
from llm_lite.core.text.sentencepiece.model_file import read_sentencepiece
from llm_lite.core.text.tokenizer import Tokenizer
from llm_lite.core.text.vocabulary import TokenType
from tests.fixtures.seq2seq import bart, marian
from tests.fixtures.seq2seq.t5 import FAMILY
from tests.pairs import on_executors
from tests.paths import FIXTURES
from tests.runners import exact, running
from tests.seq2seq_checks import check_logits, stored, write_t5_gguf
from tests.seq2seq_families import VOCABULARY


@on_executors([FAMILY, marian.FAMILY, bart.FAMILY])
def test_logits(family, case, backend, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    check_logits(family, case, backend, tmp_path, device)


@pytest.mark.parametrize("case", ["plain", "gated", "flan"])
def test_gguf_holds_the_same_model(case, tmp_path):
    known, path = stored("t5", case), tmp_path / "t5.gguf"
    write_t5_gguf(FAMILY, case, path)
    with running(path, exact("cpu", context=32)) as runner:
        runner.read_source(known["source"].tolist())
        logits = runner.session.prefill(known["target"].tolist())
        if case == "gated":  # whose file does not say that outputs are not scaled
            logits = logits * 36**0.5
        assert np.abs(logits - known["logits"][-1]).max() < 2e-3


def test_the_vocabulary_of_a_gguf_file_is_that_of_its_sentencepiece_model(tmp_path):
    path = tmp_path / "t5.gguf"
    write_t5_gguf(FAMILY, "plain", path)
    spm = read_sentencepiece(FIXTURES / "marian_tokenizer" / "source.spm")
    fewer = replace(spm, pieces=spm.pieces[:VOCABULARY])
    library = tokenizers.Tokenizer.from_buffer(fewer.tokenizer_json())
    source = open_source(path)
    tokenizer = source.tokenizer(VOCABULARY)
    for text in ("A page  for each view.", "Café ﬁne </s> 12", "한국어 <unk>", " "):
        expected = library.encode(text.replace("</s>", "")).ids if "</s>" not in text else None
        found = tokenizer.encode(text, add_special=True, parse_special=False)
        assert found[-1] == tokenizer.eos_id
        assert expected is None or found[:-1] == expected
        assert tokenizer.eos_id not in found[:-1]
    source.close()


def test_a_byte_of_a_gguf_file_whose_name_is_none_is_text(tmp_path):
    """llama.cpp opens such files; the token stands for what it is called."""
    path = tmp_path / "t5.gguf"
    write_t5_gguf(FAMILY, "plain", path)
    metadata = dict(read_metadata(path))
    types = list(metadata["tokenizer.ggml.token_type"])
    types[7] = TokenType.BYTE.value
    found = Tokenizer.from_gguf({**metadata, "tokenizer.ggml.token_type": types}, path)
    usual = Tokenizer.from_gguf(metadata, path)
    assert found.token_bytes(7) == usual.token_bytes(7) != b""
    assert found.encode("A page for each view.") == usual.encode("A page for each view.")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"t5.attention.relative_buckets_count": 22},
            r"attn_rel_b.weight: expected shape \(22, 3\)",
        ),
        ({"t5.attention.head_count": 48}, r"attn_rel_b.weight: expected shape \(8, 48\)"),
        ({"t5.attention.relative_max_distance": 4}, r"relative_max_distance: expected 5 to 65536"),
    ],
)
def test_buckets_that_the_table_does_not_have(changes, message, tmp_path):
    path = tmp_path / "t5.gguf"
    write_t5_gguf(FAMILY, "plain", path)
    with open_gguf(path) as file, pytest.raises(FileError, match=message):
        ARCHITECTURES["t5"].complete({**file.metadata, **changes}, file.tensors, path)
