"""Qwen's tokens by rank, as tiktoken has them, in a directory without tokenizer.json."""

import base64
import json
import shutil
import unicodedata

import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.text import ranked_tokens
from llm_lite.core.text.tokenizer import Tokenizer
from tests.paths import FIXTURES

MADE = FIXTURES / "ranked_tokenizer"
KNOWN = {one["text"]: one["ids"] for one in json.loads((MADE / "ids.json").read_text())}
LINES = (MADE / "qwen.tiktoken").read_bytes().splitlines()
RANKS, ROWS = len(LINES), len(LINES) + 220


@pytest.fixture
def folder(tmp_path):
    shutil.copy(MADE / "qwen.tiktoken", tmp_path)
    return tmp_path


@pytest.mark.parametrize("text", KNOWN)
def test_ids_are_those_of_tiktoken(text, folder):
    tokenizer = Tokenizer.from_huggingface(folder, ROWS)
    assert tokenizer.encode(text, add_special=True) == KNOWN[text]
    assert tokenizer.decode(KNOWN[text]) == unicodedata.normalize("NFC", text)


def test_marks_stand_behind_the_ranks(folder):
    tokenizer = Tokenizer.from_huggingface(folder, ROWS)
    marks = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|extra_0|>")
    assert tokenizer.tokens[RANKS : RANKS + 4] == marks
    assert tokenizer.end_ids == {RANKS, RANKS + 2} and tokenizer.eos_id == RANKS
    assert tokenizer.encode("<|im_start|>user")[0] == RANKS + 1
    assert RANKS + 1 not in tokenizer.encode("<|im_start|>", parse_special=False)
    assert tokenizer.tokens[-1] == f"[unused in row {ROWS - 1}]"


def line(token, rank):
    return base64.b64encode(token) + b" %d" % rank


BAD = [
    ([b"!! 0"], "line 1: expected a new token in base64 and its rank, 0, found b'!! 0'"),
    ([line(b"a", 1)], "line 1: expected a new token in base64 and its rank, 0"),
    ([line(b"a", 0), line(b"a", 1)], "line 2: expected a new token"),
    ([line(b"a", 0), line(b"ab", 1)], "token 1: no pair of earlier tokens makes b'ab'"),
    ([], "has no tokens"),
    ([line(b"a", 0), line(b"a" * 9000, 1)], "has tokens that are too long: 81,000,001 steps"),
]


@pytest.mark.parametrize(("lines", "message"), BAD)
def test_what_is_broken_is_named(lines, message, folder):
    (folder / "qwen.tiktoken").write_bytes(b"\n".join(lines))
    with pytest.raises(FileError, match=message):
        Tokenizer.from_huggingface(folder, ROWS)


def test_more_ranks_than_rows_are_refused(folder):
    with pytest.raises(FileError, match=f"has {RANKS} tokens, expected fewer than 99 rows"):
        Tokenizer.from_huggingface(folder, 99)
    assert ranked_tokens._MOST_STEPS > 5 * 10_000_000
