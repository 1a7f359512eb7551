"""SentencePiece's BPE in a directory with tokenizer.model and without tokenizer.json."""

import json
import shutil

import pytest

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.text.sentencepiece.model_file import PAIR_MODEL, read_sentencepiece
from llm_lite.core.text.tokenizer import Tokenizer
from tests.paths import FIXTURES

MADE = FIXTURES / "piece_tokenizer"
KNOWN = {one["text"]: one["ids"] for one in json.loads((MADE / "ids.json").read_text())}
PIECES = len(read_sentencepiece(MADE / "tokenizer.model", PAIR_MODEL).pieces)
ROWS = PIECES + 8


@pytest.fixture
def folder(tmp_path):
    shutil.copy(MADE / "tokenizer.model", tmp_path)
    return tmp_path


def with_config(folder, **fields):
    (folder / "tokenizer_config.json").write_text(json.dumps(fields))
    return folder


@pytest.mark.parametrize("text", KNOWN)
def test_ids_are_those_of_sentencepiece(text, folder):
    tokenizer = Tokenizer.from_huggingface(folder, ROWS)
    assert tokenizer.encode(text, parse_special=False) == KNOWN[text]
    assert tokenizer.encode(text, add_special=True) == [1, *KNOWN[text]]
    assert tokenizer.decode(KNOWN[text]) == text
    assert (tokenizer.eos_id, tokenizer.vocab_size) == (2, ROWS)


def test_what_is_said_of_the_space_before_a_text(folder):
    """As transformers' LlamaTokenizer has it: where it is not `legacy`, none stands behind a
    control token; where there is no prefix space, none anywhere."""
    usual = Tokenizer.from_huggingface(folder, ROWS)
    assert usual.decode(usual.encode("</s>a")[1:]) == "a" != usual.token_text(usual.encode("a")[0])
    once = Tokenizer.from_huggingface(with_config(folder, legacy=False), ROWS)
    assert once.encode("a") == usual.encode("a")
    assert once.encode("a</s>a") == [*usual.encode("a"), 2, *usual.encode("a", behind=[5])]
    never = Tokenizer.from_huggingface(with_config(folder, add_prefix_space=False), ROWS)
    assert never.encode("a") == usual.encode("a", behind=[5]) != usual.encode("a")
    assert never.encode(" a") == usual.encode("a")
    with_config(folder, legacy="no")
    with pytest.raises(FileError, match="legacy is 'no', expected true or false"):
        Tokenizer.from_huggingface(folder, ROWS)


def test_added_tokens_may_take_the_places_of_pieces(folder):
    """As InternLM2's, whose marks of turns stand where unused pieces were."""
    added = {
        str(PIECES - 1): {"content": "<|im_end|>", "special": True},
        str(PIECES): {"content": "<tool>", "special": False},
    }
    (folder / "added_tokens.json").write_text(json.dumps({"<more>": PIECES + 1}))
    with_config(folder, added_tokens_decoder=added, add_bos_token=False, add_eos_token=True)
    tokenizer = Tokenizer.from_huggingface(folder, ROWS)
    assert tokenizer.end_ids == {2, PIECES - 1}
    assert tokenizer.encode("<|im_end|><tool><more>") == [PIECES - 1, PIECES, PIECES + 1]
    assert PIECES - 1 not in tokenizer.encode("<|im_end|>", parse_special=False)
    assert tokenizer.encode("a", add_special=True)[-1] == 2
    assert tokenizer.tokens[-1] == f"[unused in row {ROWS - 1}]"


BAD = [
    ({"add_bos_token": "yes"}, "add_bos_token is 'yes', expected true or false"),
    ({"added_tokens_decoder": []}, None),
    ({"added_tokens_decoder": [1]}, "added_tokens_decoder is a list of 1, expected an object"),
    ({"added_tokens_decoder": {"x": {"content": "a"}}}, "has 'x': an object of 1, expected a"),
    ({"added_tokens_decoder": {"9": 5}}, "has '9': 5, expected a token's id"),
    ({"added_tokens_decoder": {"9": {"content": "</s>"}}}, "has '</s>' twice"),
]


@pytest.mark.parametrize(("fields", "message"), BAD)
def test_what_is_broken_is_named(fields, message, folder):
    with_config(folder, **fields)
    if message is None:
        assert Tokenizer.from_huggingface(folder, ROWS).vocab_size == ROWS
        return
    with pytest.raises(FileError, match=message):
        Tokenizer.from_huggingface(folder, ROWS)


def test_other_models_are_refused(folder):
    (folder / "added_tokens.json").write_text(json.dumps({"a": "b"}))
    with pytest.raises(FileError, match="'a' is 'b', expected an id"):
        Tokenizer.from_huggingface(folder, ROWS)
    (folder / "added_tokens.json").unlink()
    shutil.copy(FIXTURES / "marian_tokenizer" / "source.spm", folder / "tokenizer.model")
    with pytest.raises(UnsupportedError, match="SentencePiece's kind Unigram, expected BPE"):
        Tokenizer.from_huggingface(folder, ROWS)
