"""Marian's two SentencePiece models and their common vocabulary, beside transformers."""

from __future__ import annotations

import json

import pytest

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.text.sentencepiece import model_file
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
    path.write_bytes(data + b"\x12\x02\x18\x02")  # trainer_spec.model_type = BPE
    with pytest.raises(UnsupportedError, match="is of SentencePiece's kind BPE, expected Unigram"):
        read_sentencepiece(path)


def field(number, content):
    """A text in protocol buffers' wire format, of fewer than 128 bytes."""
    return bytes((number << 3 | 2, len(content))) + content


MANY = {  # one that says more in few bytes than a model does
    "of the file": b"\x58\x01" * 1200,
    "of a piece": field(1, field(1, b"a") + b"\x28\x01" * 50) * 30,
    "of the trainer": b"\x12\xe0\x12" + b"\x28\x01" * 1200,
}


@pytest.mark.parametrize("case", MANY)
def test_the_fields_of_a_file_are_counted(case, tmp_path, monkeypatch):
    """Each takes time; a file of 60 MiB may have 30 million."""
    monkeypatch.setattr(model_file, "MOST_FIELDS", 1000)
    path = tmp_path / "source.spm"
    path.write_bytes(MANY[case] + (FOLDER / "source.spm").read_bytes())
    with pytest.raises(FileError, match="is not a SentencePiece model: it has more than 1000 fie"):
        read_sentencepiece(path)


def test_as_many_fields_as_pieces_need_are_read():
    pieces = 1 << 20
    assert pieces * 4 < model_file.MOST_FIELDS < pieces * 8


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ({"</s>": 0}, "has no <unk>"),
        ({"</s>": 0, "<unk>": 9999}, "has no <unk>"),
        ({"</s>": 0, "<unk>": -1}, "'<unk>' is -1, expected an id"),
        ({"</s>": "0", "<unk>": 1}, "'</s>' is '0', expected an id"),
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
    told = tokenizer.trace_parts([*tokenizer.parts([(text, False)])], 10)["traced"][0]
    pieces = [piece for word in told["words"] for piece in word["pieces"]]
    assert [number for _, number, *_ in pieces] == tokenizer.encode(text)
