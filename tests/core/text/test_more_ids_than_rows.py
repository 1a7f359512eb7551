"""A tokenizer with more ids than the embedding has rows, as Gemma 3 1B's and those of fine-tunes
with a [PAD]: it opens, and is the tokenizer without these. The reference is the `tokenizers`
library, or the other reader's stored ids, on a file that never had them.
"""

from __future__ import annotations

import copy
import json
import shutil

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import models

from llm_lite.core.errors import FileError
from llm_lite.core.text.tokenizer import Tokenizer
from tests.core.text import test_piece_tokenizer, test_ranked_tokens, test_spiece
from tests.core.text.test_gemma_tokenizer import LIKE
from tests.paths import FIXTURES

TEXTS = ("the page", "a <image_soft_token>b[PAD]", "  zz[PAD] zz", "", "한국어 \U0001f642", "[PAD]")
KINDS = ("llama", "t5", "bert", "qwen", "gpt")


def added(text, number, special):
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": number, "content": text, "special": special, **flags}


def opened(folder, value, rows):
    (folder / "tokenizer.json").write_text(json.dumps(value, ensure_ascii=False))
    return Tokenizer.from_huggingface(folder, rows)


def with_token_in_vocabulary(value, text, number):
    vocabulary = value["model"]["vocab"]
    if isinstance(vocabulary, list):
        vocabulary += [["\0", -99.0]] * (number - len(vocabulary)) + [[text, -0.1]]
    else:
        vocabulary[text] = number
        if "merges" in value["model"]:
            value["model"]["merges"].insert(0, [text[:1], text[1:]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["special", "plain", "in the vocabulary"])
def test_ids_are_those_of_the_file_without_them(kind, how, tmp_path):
    value = json.loads((FIXTURES / "tokenizers" / kind / "tokenizer.json").read_text())
    library = Library.from_str(json.dumps(value))
    rows = library.get_vocab_size()
    more = copy.deepcopy(value)
    if how == "in the vocabulary":
        with_token_in_vocabulary(more, "pa", rows)
    else:
        for number, text in enumerate(("[PAD]", "<image_soft_token>", "zz")):
            more["added_tokens"].append(added(text, rows + number, how == "special"))
    ours = opened(tmp_path, more, rows)
    assert ours.vocab_size == rows
    for text in TEXTS:
        for trusted in (True, False):
            ids = ours.encode(text, add_special=True, parse_special=trusted)
            library.encode_special_tokens = not trusted
            assert ids == library.encode(text).ids


def test_gemma_s_soft_token(tmp_path):
    """Its id is the first behind the embedding's last row."""
    value, rows = copy.deepcopy(LIKE), len(LIKE["model"]["vocab"])
    value["added_tokens"].append(added("<image_soft_token>", rows, special=True))
    ours = opened(tmp_path, value, rows)
    library = Library.from_str(json.dumps(LIKE))
    for text in TEXTS:
        assert ours.encode(text, add_special=True) == library.encode(text).ids
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, rows]}))
    assert rows not in Tokenizer.from_huggingface(tmp_path, rows).end_ids


def test_what_stands_around_every_text_must_have_rows(tmp_path):
    value, rows = copy.deepcopy(LIKE), len(LIKE["model"]["vocab"])
    value["post_processor"]["special_tokens"]["<bos>"]["ids"] = [rows]
    problem = f"the post_processor puts token {rows} around texts, but the embedding has {rows}"
    with pytest.raises(FileError, match=problem):
        opened(tmp_path, value, rows)


def test_words_and_pairs_of_files_of_their_own(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "##s", "dog"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    whole, cut = (Tokenizer.from_huggingface(tmp_path, rows) for rows in (8, 7))
    assert whole.encode("the dog cats") == [4, 7, 5, 6]
    assert cut.encode("the dog cats") == [4, 1, 5, 6] and cut.vocab_size == 7
    (tmp_path / "vocab.txt").unlink()
    library = Library(models.BPE({"a": 0, "b": 1, "ab": 2, "aba": 3}, [("a", "b"), ("ab", "a")]))
    library.model.save(str(tmp_path))
    whole, cut = (Tokenizer.from_huggingface(tmp_path, rows) for rows in (4, 3))
    assert (whole.encode("aba"), cut.encode("aba")) == ([3], [2, 0])


def test_a_separator_of_lines_may_be_a_token(tmp_path):
    """U+2028 and U+0085 end no line of a vocab.txt: what follows keeps its id."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2028", "\x85", "\x0c", "cat"]
    (tmp_path / "vocab.txt").write_bytes("\r\n".join(words).encode() + b"\r\n")
    tokenizer = Tokenizer.from_huggingface(tmp_path, 8)
    assert tokenizer.encode("cat") == [7] and tokenizer.token_text(4) == "\u2028"


def test_empty_lines_of_a_vocabulary_have_ids(tmp_path):
    """A line break that was a token left two of them: what follows keeps its id."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "", "", "cat", ""]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    tokenizer = Tokenizer.from_huggingface(tmp_path, 8)
    assert tokenizer.encode("cat\ncat dog") == [6, 6, 1]
    assert (tokenizer.decode([4]), tokenizer.token_text(5)) == ("", "")


def test_pieces_and_ranks_behind_the_rows(tmp_path):
    shutil.copy(test_spiece.PIECES, tmp_path / "spiece.model")
    for text in test_spiece.TEXTS:
        assert max(Tokenizer.from_huggingface(tmp_path, 100).encode(text), default=0) < 100
    (tmp_path / "spiece.model").unlink()
    shutil.copy(test_piece_tokenizer.MADE / "tokenizer.model", tmp_path)
    rows = test_piece_tokenizer.PIECES
    more = {str(rows): {"content": "[PAD]", "special": True}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": more}))
    ours = Tokenizer.from_huggingface(tmp_path, rows)
    for text, ids in test_piece_tokenizer.KNOWN.items():
        assert ours.encode(text, parse_special=False) == ids
    (tmp_path / "tokenizer.model").unlink()
    shutil.copy(test_ranked_tokens.MADE / "qwen.tiktoken", tmp_path)
    ours = Tokenizer.from_huggingface(tmp_path, test_ranked_tokens.RANKS + 3)
    assert ours.tokens[-1] == "<|im_end|>"
    for text, ids in test_ranked_tokens.KNOWN.items():
        assert ours.encode(text) == ids
