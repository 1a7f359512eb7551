"""Marian's two SentencePiece models and their common vocabulary, beside transformers."""

from __future__ import annotations

import json

import pytest

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.text.sentencepiece.model_file import read_sentencepiece
from llm_lite.core.text.tokenizer import Tokenizer
from tests.paths import FIXTURES

FOLDER = FIXTURES / "marian_tokenizer"
ROWS = len(json.loads((FOLDER / "vocab.json").read_text()))


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.from_huggingface(FOLDER, ROWS)


@pytest.mark.parametrize("case", json.loads((FOLDER / "ids.json").read_text()))
def test_ids_are_those_of_transformers(tokenizer, case):
    assert tokenizer.encode(case["text"], add_special=True) == case["ids"]


def test_ids_become_text_again(tokenizer):
    ids = tokenizer.encode("A page for each view.", add_special=True)
    assert tokenizer.decode(ids, skip_special=True).strip() == "A page for each view."
    assert tokenizer.end_ids == {0}


def test_a_file_that_is_no_model_is_one_sentence(tmp_path):
    path = tmp_path / "source.spm"
    data = (FOLDER / "source.spm").read_bytes()
    for broken in (b"", b"\xff" * 30, data[:1000], b"\x0a\x05hello"):
        path.write_bytes(broken)
        with pytest.raises(FileError, match="is not a SentencePiece model"):
            read_sentencepiece(path)
    path.write_bytes(b"\x12\x02\x18\x02" + data)  # trainer_spec.model_type = BPE
    with pytest.raises(UnsupportedError, match="model_type is 2; known is 1, Unigram"):
        read_sentencepiece(path)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ({"</s>": 0}, "has no <unk>"),
        ({"</s>": 0, "<unk>": 9999}, "'<unk>' is 9999, expected an id below"),
        ({"</s>": "0", "<unk>": 1}, "'</s>' is '0', expected an id below"),
    ],
)
def test_a_bad_vocabulary_is_one_sentence(ids, message, tmp_path):
    for name in ("source.spm", "target.spm"):
        (tmp_path / name).write_bytes((FOLDER / name).read_bytes())
    (tmp_path / "vocab.json").write_text(json.dumps(ids))
    with pytest.raises(FileError, match=message):
        Tokenizer.from_huggingface(tmp_path, ROWS)


def test_stages_have_the_vocabulary_s_ids(tokenizer):
    text = "A page for each view, with a picture."
    told = tokenizer.trace_words([text], 10)["traced"][0]
    pieces = [piece for word in told["words"] for piece in word["pieces"]]
    assert [number for _, number, *_ in pieces] == tokenizer.encode(text)
