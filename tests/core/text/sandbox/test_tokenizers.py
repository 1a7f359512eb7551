"""Small nonsense in tokenizer.json makes the library panic: here it is a sentence."""

import copy
import json

import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.text.sandbox.process import sandbox
from llm_lite.core.text.tokenizer import Tokenizer
from tests.make_gguf import tokenizer_metadata
from tests.make_huggingface import tokenizer_json

TEXTS = ("", "a", "hello world, hello", "é안🙂\n\n  x", "a" * 3000)


def changed(**parts):
    value = copy.deepcopy(tokenizer_json(300))
    value.update(parts)
    return value


def split(pattern, behavior="Isolated"):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False}


NONSENSE = {
    "an empty Prepend": changed(normalizer={"type": "Prepend", "prepend": ""}),
    "FixedLength 0": changed(pre_tokenizer={"type": "FixedLength", "length": 0}),
    "an empty regular expression": changed(pre_tokenizer=split("")),
    "an unknown token": changed(
        post_processor={
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "[NO]", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {},
        }
    ),
    "an expression without an end": changed(pre_tokenizer=split("(a+)+$")),
    "an expression that is broken": changed(pre_tokenizer=split("(((")),
    "added tokens that are none": changed(added_tokens=[3, None, "a"]),
    "a model that is none": changed(model={"type": "BPE", "vocab": {}, "merges": [["a", "b"]]}),
}


@pytest.mark.parametrize("case", NONSENSE)
def test_nonsense_is_a_sentence_or_read(case, tmp_path, capfd):
    (tmp_path / "tokenizer.json").write_text(json.dumps(NONSENSE[case]))
    try:
        tokenizer = Tokenizer.from_huggingface(tmp_path, 300)
        for text in (*TEXTS, "a" * 40 + "b"):
            tokenizer.encode(text)
    except FileError as error:
        assert "tokenizer" in str(error)
    assert capfd.readouterr() == ("", "")  # a panic prints pages


def test_a_tokenizer_outlives_the_process_that_runs_it():
    tokenizer = Tokenizer.from_gguf(tokenizer_metadata(300), "model.gguf")
    before = [tokenizer.encode(text) for text in TEXTS]
    sandbox().close()
    assert [tokenizer.encode(text) for text in TEXTS] == before


def test_a_file_is_read_again_for_another_process_unless_it_changed(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(tokenizer_json(300)))
    tokenizer = Tokenizer.from_huggingface(tmp_path, 300)
    before = [tokenizer.encode(text) for text in TEXTS]
    sandbox().close()
    assert [tokenizer.encode(text) for text in TEXTS] == before
    sandbox().close()
    path.write_text(json.dumps(tokenizer_json(290)))
    with pytest.raises(FileError, match=r"tokenizer\.json: has changed since it was loaded"):
        tokenizer.encode("hello")


def test_more_tokenizers_than_are_kept():
    made = [Tokenizer.from_gguf(tokenizer_metadata(300 + i), "model.gguf") for i in range(7)]
    first = [tokenizer.encode("hello world") for tokenizer in made]
    assert [tokenizer.encode("hello world") for tokenizer in made] == first
