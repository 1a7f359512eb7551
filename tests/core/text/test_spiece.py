"""T5's spiece.model in a directory without a tokenizer.json."""

import json
import shutil

import pytest
import tokenizers

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.text.sentencepiece.model_file import read_sentencepiece
from llm_lite.core.text.tokenizer import Tokenizer
from tests.paths import FIXTURES

PIECES = FIXTURES / "marian_tokenizer" / "source.spm"
ROWS = 450
TEXTS = ("A page for each view.", "Café ﬁne 12", "한국어", "two  spaces\nand a line", "", " ")


@pytest.fixture
def folder(tmp_path):
    shutil.copy(PIECES, tmp_path / "spiece.model")
    return tmp_path


def test_ids_are_those_of_the_library(folder):
    model = read_sentencepiece(PIECES)
    library = tokenizers.Tokenizer.from_buffer(model.tokenizer_json())
    tokenizer = Tokenizer.from_huggingface(folder, ROWS)
    end = [piece for piece, _ in model.pieces].index("</s>")
    assert tokenizer.vocab_size == ROWS and tokenizer.end_ids == {end}
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special=True)
        assert ids == [*library.encode(text).ids, end]
        if model.unknown not in ids:
            text = tokenizer.decode(ids, skip_special=True)
            assert text.strip() == library.decode(ids[:-1]).strip()


def test_sentinels_follow_the_last_one_first(folder):
    count = len(read_sentencepiece(PIECES).pieces)
    tokenizer = Tokenizer.from_huggingface(folder, ROWS)
    assert tokenizer.tokens[count] == "<extra_id_99>"
    assert tokenizer.tokens[count + 99 : count + 101] == ("<extra_id_0>", "[unused400]")
    ids = tokenizer.encode("a <extra_id_0> b", add_special=False)
    assert count + 99 in ids
    assert count + 99 not in tokenizer.encode("a <extra_id_0> b", parse_special=False)
    (folder / "tokenizer_config.json").write_text(json.dumps({"extra_ids": 0}))
    assert Tokenizer.from_huggingface(folder, ROWS).tokens[count] == f"[unused{count}]"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.write_bytes(b"no model"), "spiece.model: is not a SentencePiece model"),
        (lambda path: path.write_bytes(b""), "spiece.model: is not a SentencePiece model: it has"),
        (
            lambda path: (path.parent / "tokenizer_config.json").write_text('{"extra_ids": -1}'),
            "extra_ids is -1, expected a count",
        ),
    ],
)
def test_what_is_broken_is_named(folder, change, message):
    change(folder / "spiece.model")
    with pytest.raises((FileError, UnsupportedError), match=message):
        Tokenizer.from_huggingface(folder, ROWS)


def test_an_end_behind_the_rows_is_refused(folder):
    with pytest.raises(FileError, match="among the 1 rows of the embedding"):
        Tokenizer.from_huggingface(folder, 1)
