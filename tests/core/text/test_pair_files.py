"""vocab.json and merges.txt, as GPT-2 and RoBERTa came, beside the `tokenizers` library."""

from __future__ import annotations

import json

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from llm_lite.core.errors import FileError
from llm_lite.core.text.tokenizer import Tokenizer

TEXTS = (
    "The cat sat on the mat.",
    "Il pleut à Paris, n'est-ce pas?",
    "고양이가 잔다.",
    "a  b\n\tc",
    "",
)
MARKS = {
    "roberta": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
    "gpt2": ["<|endoftext|>"],
}


@pytest.fixture(scope="module", params=MARKS)
def published(request, tmp_path_factory):
    """(library, folder with its vocab.json and merges.txt, rows of the embedding)"""
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    marks = MARKS[request.param]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=marks, initial_alphabet=alphabet, show_progress=False
    )
    library.train_from_iterator([*TEXTS, "the cat, the mat, the hat"] * 3, trainer)
    if request.param == "roberta":
        library.post_processor = processors.RobertaProcessing(
            ("</s>", 2), ("<s>", 0), trim_offsets=False, add_prefix_space=False
        )
    folder = tmp_path_factory.mktemp(request.param)
    library.model.save(str(folder))
    return library, folder, library.get_vocab_size() + 3


def test_ids_are_those_of_the_library(published):
    library, folder, rows = published
    tokenizer = Tokenizer.from_huggingface(folder, rows)
    for text in TEXTS:
        expected = library.encode(text, add_special_tokens=True).ids
        assert tokenizer.encode(text, add_special=True, parse_special=False) == expected
        assert tokenizer.decode(expected, skip_special=True) == text
    if tokenizer.mask_id is not None:
        before, between, behind = tokenizer.around_pair
        first, second = (tokenizer.encode(text, parse_special=False) for text in TEXTS[:2])
        pair = library.encode(*TEXTS[:2]).ids
        assert [*before, *first, *between, *second, *behind] == pair
        assert tokenizer.token_text(tokenizer.mask_id) == "<mask>"
    assert tokenizer.vocab_size == rows


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("vocab.json", '{"a": 1, "b": 1}', "gives one id to several tokens"),
        ("vocab.json", '{"a": -1}', r"'a' has the id -1, expected 0 or more"),
        ("vocab.json", '{"a": "0"}', r"'a' has the id '0', expected 0 or more"),
        ("vocab.json", "{}", "has no tokens"),
        ("vocab.json", '{"<mask>": 0, "<s>": 1}', "has no token for eos_token"),
        ("merges.txt", "a c", "line 1: expected two tokens whose pair is a token, found 'a c'"),
        ("merges.txt", "#version: 0.2\na", "line 2: expected two tokens"),
        ("merges.txt", b"\xff", "is not valid UTF-8 at byte 0"),
    ],
)
def test_what_is_damaged_is_one_sentence(tmp_path, name, text, message):
    (tmp_path / "vocab.json").write_text(json.dumps({"a": 0, "b": 1, "ab": 2, "c": 3}))
    (tmp_path / "merges.txt").write_text("a b\n")
    data = text if isinstance(text, bytes) else text.encode()
    (tmp_path / name).write_bytes(data)
    with pytest.raises(FileError, match=message):
        Tokenizer.from_huggingface(tmp_path, 5)
