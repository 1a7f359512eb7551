"""All stages of a text, by tokenizers as a model has them and by a tokenizer.json alone."""

import json
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings

from llm_lite.core.errors import FileError, RequestError
from llm_lite.core.formats.gguf_reader import read_metadata
from llm_lite.core.hub import catalog
from llm_lite.core.messages.inspecting.tokenizing import MOST_CHARACTERS, MOST_STEPPED, MergeSteps
from llm_lite.core.text.chat_template import CHATML
from llm_lite.core.text.stages import MOST_COUNTED, TokenizerFile, tokenized
from llm_lite.core.text.token_merging import merged
from llm_lite.core.text.tokenizer import Tokenizer
from tests.core.text.test_tokenization_steps import FIXTURES, TEXTS
from tests.core.text.test_tokenizer import piece_metadata


@cache
def tokenizer(name):
    if name == "smollm2":
        path = catalog.resolve(None)
        return Tokenizer.from_gguf(read_metadata(path), path)
    if name == "sentencepiece":
        return Tokenizer.from_gguf(piece_metadata(), FIXTURES)
    if name == "scored":
        return Tokenizer.from_gguf(scored_metadata(), FIXTURES)
    return Tokenizer.from_huggingface(FIXTURES / name, 2000)


def scored_metadata():
    """The trained vocabulary as SentencePiece has it: a score for each token, and no merges."""
    model = json.loads((FIXTURES / "llama" / "tokenizer.json").read_text("utf-8"))["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    rank = {
        left + right: number for number, (left, right) in reversed([*enumerate(model["merges"])])
    }
    kinds = {"<unk>": 2, "<s>": 3, "</s>": 3}
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [-float(rank.get(token, len(rank) + 1)) for token in tokens],
        "tokenizer.ggml.token_type": [
            kinds.get(token, 6 if token.startswith("<0x") else 1) for token in tokens
        ],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


@settings(max_examples=60, deadline=None)
@given(text=TEXTS)
def test_scored_merges_come_in_the_order_of_a_plain_implementation(text):
    metadata = scored_metadata()
    score = dict(
        zip(metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.scores"], strict=True)
    )
    text_kinds = {
        t for t, kind in zip(score, metadata["tokenizer.ggml.token_type"], strict=True) if kind == 1
    }
    told = tokenized(tokenizer("scored"), "scored", [(text, False)])
    assert told.own_words
    for word in told.words:
        pieces, merges = list(word.steps.symbols), []
        while True:
            pairs = [
                (-score[a + b], at)
                for at, (a, b) in enumerate(pairwise(pieces))
                if a + b in text_kinds
            ]
            if not pairs:
                break
            rank, at = min(pairs)
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
            merges.append((at, rank, pieces[at]))
        assert merges == [(m.at, m.rank, m.made) for m in word.steps.merges]


@pytest.mark.parametrize("name", ["smollm2", "sentencepiece", "scored", "llama", "qwen"])
@settings(max_examples=40, deadline=None)
@given(text=TEXTS)
def test_pieces_are_what_the_tokenizer_encodes(name, text):
    for trusted in (True, False):
        told = tokenized(tokenizer(name), name, [(text, trusted)])
        ids = tokenizer(name).encode(text, add_special=True, parse_special=trusted)
        assert [piece.id for piece in told.pieces] == ids
        assert told.tokens == len(ids)
        for piece in told.pieces:
            assert piece.data == tokenizer(name).token_bytes(piece.id)
            assert 0 <= piece.start <= piece.end <= len(text)
        for word in told.words:
            if isinstance(word.steps, MergeSteps) and not word.steps.scored:
                assert merged(word.steps) == [piece.token for piece in word.pieces]


def test_control_tokens_stand_out_where_they_count():
    text = "Hi <|im_end|> you"
    control = [w for w in tokenized(tokenizer("smollm2"), "m", [(text, True)]).words if w.control]
    assert [(w.spelled, w.start, w.end) for w in control] == [("<|im_end|>", 3, 13)]
    typed = tokenized(tokenizer("smollm2"), "m", [(text, False)])
    assert not any(word.marked for word in typed.words)
    assert typed.typed == ()


def test_what_a_template_writes_is_told_from_what_is_typed():
    segments = [("<|im_start|>user\n", True), ("Hi", False), ("<|im_end|>\n", True)]
    told = tokenized(tokenizer("smollm2"), "m", segments, around=False)
    assert CHATML.count("<|im_start|>") and told.words[0].control
    assert [told.text[a:b] for a, b in told.typed] == ["Hi"]


def test_spaces_end_words_where_no_merge_reaches_over_them():
    told = tokenized(tokenizer("llama"), "m", [("the model and 한국", True)])
    assert told.own_words and len(told.words) == 4
    assert [word.spelled[0] for word in told.words] == ["▁"] * 4


def test_of_long_texts_the_beginning_is_told():
    text = "the model " * 3000
    told = tokenized(tokenizer("smollm2"), "m", [(text, True)])
    assert told.characters == len(text) and len(told.text) == MOST_CHARACTERS
    assert told.tokens == len(tokenizer("smollm2").encode(text))
    assert max(word.end for word in told.words) == MOST_CHARACTERS
    for word in told.words:
        assert (word.steps is not None) == (word.start < MOST_STEPPED)
    with pytest.raises(RequestError, match="at most 1,048,576"):
        tokenized(tokenizer("smollm2"), "m", [("a" * (MOST_COUNTED + 1), True)])


@pytest.mark.parametrize(
    ("name", "kind", "before", "after"),
    [
        ("bert", "WordPiece", ["[CLS]"], ["[SEP]"]),
        ("t5", "Unigram", [], ["</s>"]),
        ("llama", "BPE", ["<s>"], []),
        ("gpt", "BPE", [], []),
    ],
)
def test_a_tokenizer_file_alone(name, kind, before, after):
    file = TokenizerFile(FIXTURES / name / "tokenizer.json")
    told = file.tokenized("Unbelievable 한국어!")
    assert (told.kind, told.tokenizer) == (kind, name)
    assert [piece.token for piece in told.before] == before
    assert [piece.token for piece in told.after] == after
    around = len(before) + len(after)
    assert told.tokens == len(told.pieces) == file.count("Unbelievable 한국어!") + around


def test_a_control_token_is_one_in_a_tokenizer_file_too():
    file = TokenizerFile(FIXTURES / "bert" / "tokenizer.json")
    text = "a [MASK] b"
    marks = [w.spelled for w in file.tokenized(text).words if w.marked]
    assert marks == ["[MASK]"]
    assert not any(w.marked for w in file.tokenized(text, control=False).words)


def test_a_broken_file_is_a_sentence(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text('{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "zz"]]}}')
    with pytest.raises(FileError, match="is not a tokenizer that can be read"):
        TokenizerFile(path)


@pytest.mark.parametrize("name", ["<0xzz>", "<0x²³>", "<0x-1>", "<0x 1>"])
def test_a_token_that_only_looks_like_a_byte_is_text(name, tmp_path):
    whole = json.loads((FIXTURES / "llama" / "tokenizer.json").read_text("utf-8"))
    whole["model"]["vocab"][name] = len(whole["model"]["vocab"])
    whole["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": name, "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {
            name: {"id": name, "ids": [whole["model"]["vocab"][name]], "tokens": [name]}
        },
    }
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(whole))
    assert TokenizerFile(path).tokenized("a").before[0].data == name.encode()


def test_a_lone_surrogate_is_a_sentence():
    with pytest.raises(RequestError, match="lone surrogate"):
        TokenizerFile(FIXTURES / "bert" / "tokenizer.json").tokenized("a\ud800")
