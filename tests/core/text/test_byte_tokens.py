"""ByT5's tokenizer, which only tokenizer_config.json tells of."""

import json

import pytest

from llm_lite.core.convert.quantizing import quantize
from llm_lite.core.errors import FileError
from llm_lite.core.generation.translation import encode_source
from llm_lite.core.loading import loader
from llm_lite.core.loading.beside import translator_of
from llm_lite.core.text.stages import tokenized
from llm_lite.core.text.tokenizer import Tokenizer
from tests.fixtures.seq2seq import t5
from tests.runners import exact, running
from tests.seq2seq_checks import write_case

ROWS = 384
# What transformers' ByT5Tokenizer makes of them.
KNOWN = {
    "héllo <extra_id_0> x": [107, 198, 172, 111, 111, 114, 35, 259, 35, 123, 1],
    "": [1],
    "한\n": [240, 152, 159, 13, 1],
}


def folder_with(folder, **fields):
    config = {"tokenizer_class": "ByT5Tokenizer", "extra_ids": 125, **fields}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture
def tokenizer(tmp_path):
    return Tokenizer.from_huggingface(folder_with(tmp_path), ROWS)


@pytest.mark.parametrize("text", KNOWN)
def test_ids_are_those_of_transformers(text, tokenizer):
    ids = tokenizer.encode(text, add_special=True)
    assert ids == KNOWN[text]
    assert tokenizer.decode(ids[:-1]) == text
    assert tokenizer.decode(ids, skip_special=True) == text.replace("<extra_id_0>", "")


def test_every_byte_is_a_token(tokenizer):
    assert [tokenizer.token_bytes(3 + byte) for byte in range(256)] == [
        bytes([byte]) for byte in range(256)
    ]
    assert tokenizer.end_ids == {1} and tokenizer.tokens[-1] == "<extra_id_124>"
    assert tokenizer.encode("<extra_id_0>", parse_special=False)[0] == 3 + ord("<")


def test_stages_have_the_bytes_of_each_character(tokenizer):
    found = tokenized(tokenizer, "byt5", [("aé", False)])
    pieces = [(piece.id, piece.start, piece.end) for piece in found.words[0].pieces]
    assert pieces == [(100, 0, 1), (198, 1, 2), (172, 1, 2)]
    assert (found.tokens, [piece.id for piece in found.after]) == (4, [1])


def test_sentinels_are_as_many_as_its_file_says(tmp_path):
    for count, last in ((0, "<extra_id_124>"), (3, "[unused383]")):
        made = Tokenizer.from_huggingface(folder_with(tmp_path, extra_ids=count), ROWS)
        assert made.tokens[-1] == last and len(made.tokens) == ROWS


def test_what_does_not_fit_is_named(tmp_path):
    with pytest.raises(FileError, match="of ByT5: expected at least 259 rows of embedding"):
        Tokenizer.from_huggingface(folder_with(tmp_path), 258)
    with pytest.raises(FileError, match="extra_ids is -1, expected a count"):
        Tokenizer.from_huggingface(folder_with(tmp_path, extra_ids=-1), ROWS)


def test_a_t5_reads_bytes_and_writes_them(tmp_path):
    """From a checkpoint's folder, and from the variant that is made of it."""
    folder = write_case(t5.FAMILY, "gated", tmp_path / "m")
    (folder / "tokenizer.json").unlink()
    folder_with(folder)
    file = loader.open_model(str(folder), lambda *_: None, lambda text: None)
    quantize(file, tmp_path / "variant", "fp32")
    file.close()
    targets = []
    for path in (folder, tmp_path / "variant"):
        with running(path, exact("numpy")) as runner:
            tokenizer, translator = runner.model_file.tokenizer, translator_of(runner)
            source = encode_source(tokenizer, "né", 64)
            assert source == [3 + byte for byte in "né".encode()] + [1]
            target = translator.translate(source, translator.options(1, 6))
            assert all(tokenizer.token_bytes(token) for token in target.tokens)
            targets.append(target.tokens)
    assert targets[0] == targets[1] and len(targets[0]) > 1
