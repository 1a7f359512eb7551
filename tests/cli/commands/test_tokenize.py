"""`llm-lite tokenize`: the stages as lines and as JSON, its sentences."""

import json
from pathlib import Path

import pytest

from llm_lite.cli.main import main
from llm_lite.core.formats.gguf_reader import read_metadata
from llm_lite.core.text.tokenizer import Tokenizer

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "tokenizers"
MODEL = "smollm2-135m-instruct"


def tokenize(capsys, *words):
    """Exit code, standard output and standard error."""
    code = main(["tokenize", *map(str, words)])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return code, out, err


def test_words_merges_and_ids_of_the_bundled_model(smollm2, capsys):
    code, out, _ = tokenize(capsys, MODEL, "unbelievable 하늘", "--steps")
    assert code == 0
    assert "SmolLM2 135M Instruct: BPE of bytes, 49,152 tokens in the vocabulary" in out
    assert "words: unbelievable | ␣하늘" in out
    assert "    1  l + e → le  (rank 38)" in out
    assert out.splitlines()[-1] == "9 tokens, 15 characters"


def test_json_has_the_ids_that_the_model_reads(smollm2, capsys):
    text = "The sky <|im_end|> is 파랗다."
    _, out, _ = tokenize(capsys, MODEL, text, "--json", "--steps", "--control")
    report = json.loads(out)
    tokenizer = Tokenizer.from_gguf(read_metadata(smollm2), smollm2)
    assert report["ids"] == tokenizer.encode(text, add_special=True)
    assert [w["spelled"] for w in report["words"] if w["control"]] == ["<|im_end|>"]
    assert all("steps" in w for w in report["words"] if not w["control"])
    _, out, _ = tokenize(capsys, MODEL, text, "--json")
    assert json.loads(out)["ids"] == tokenizer.encode(text, parse_special=False)


def test_a_message_has_its_template_around(smollm2, capsys):
    _, out, _ = tokenize(capsys, MODEL, "Hi", "--chat", "--json")
    report = json.loads(out)
    assert report["text"].endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert sum(word["control"] for word in report["words"]) == 5


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("bert", "  * model"),
        ("t5", "sum of the best path"),
        ("llama", "→ ␣the  (rank"),
    ],
)
def test_steps_of_other_kinds(name, line, capsys):
    code, out, _ = tokenize(capsys, FIXTURES / name / "tokenizer.json", "the model", "--steps")
    assert code == 0 and line in out


def test_a_text_from_a_file(tmp_path, capsys):
    path = tmp_path / "t.txt"
    path.write_text("the model", "utf-8")
    tokenizer = FIXTURES / "bert" / "tokenizer.json"
    _, out, _ = tokenize(capsys, tokenizer, "--text-file", path)
    assert out == tokenize(capsys, tokenizer, "the model")[1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nonsense-model", "x"], "unknown model"),
        ([MODEL], "expected a text behind the model, or --text-file F"),
        ([str(FIXTURES / "none" / "tokenizer.json"), "x"], "tokenizer.json"),
    ],
)
def test_bad_input_is_a_sentence(words, sentence, capsys):
    code, _, err = tokenize(capsys, *words)
    assert code == 1 and sentence in err
    assert err.count("\n") == 1


def test_a_broken_tokenizer_is_a_sentence(tmp_path, capsys):
    path = tmp_path / "tokenizer.json"
    path.write_text('{"model": 3}')
    code, _, err = tokenize(capsys, path, "x")
    assert code == 1 and "is not a tokenizer that can be read" in err


def test_a_text_may_look_like_an_option(smollm2, capsys):
    """Behind two dashes."""
    code, out, _ = tokenize(capsys, MODEL, "--", "--a=--")
    assert code == 0
    assert out.splitlines()[-1] == "4 tokens, 6 characters"
