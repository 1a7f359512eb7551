"""tokenizer.json: real tiny ones changed, with components of every type that the library knows and
absurd parameters for them; loaded, and texts encoded and decoded."""

from __future__ import annotations

import json
import random
from functools import cache
from importlib import import_module
from typing import Any

from llm_lite.core.text.tokenizer import Tokenizer
from tests.fuzz.door import Case, Door
from tests.fuzz.mutations import change_json, mutate_bytes, odd_text, special_file, to_json
from tests.make_huggingface import tokenizer_json

ROWS = 300
_TEXTS = (
    "",
    "a",
    "the end of the line",
    "  two  spaces\n\tand 1234567",
    "한국어 <|im_end|> é",
    "a" * 400,
)
_STRINGS = (
    "",
    " ",
    "a",
    "▁",
    "▁▁",
    "Ġ",
    "e",
    "\n",
    "</w>",
    "##",
    "<|im_start|>",
    "\x00",
    "x" * 500,
)
_PATTERNS: tuple[Any, ...] = (
    *(
        {"Regex": p}
        for p in ("", "a*", ".", r"\s+", "(a+)+$", "(a|a)*b", "(?=)", "^", "(", r"\p{L}+")
    ),
    *(
        {"Regex": p}
        for p in ("(x+x+)+y", "(?i:a)|.{0,65535}", "[^a]*a", r"\b", "(?<!a)b?", "é|\ud800")
    ),
    *({"String": p} for p in _STRINGS),
)
_BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous", "x")
_SCHEMES = ("first", "never", "always", "x")
_COUNTS = (0, 1, 2, 5, 300, -1, 2**31, 2**63, 2**64 - 1, 1.5)


@cache
def seeds() -> list[str]:
    """Byte-level BPE, pairs with "▁" and bytes, whole words, a unigram, pieces of words."""
    level = tokenizer_json(ROWS - 20)
    pairs, words, unigram, pieces = (tokenizer_json(ROWS - 20) for _ in range(4))
    ids = {
        t: i for i, t in enumerate(["<unk>", "<s>", "</s>", *map("<0x{:02X}>".format, range(256))])
    }
    ids |= {t: len(ids) + i for i, t in enumerate(("▁", "a", "e", "t", "▁a", "th"))}
    space = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    back = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    pairs["model"] |= {"vocab": ids, "merges": [["▁", "a"]], "byte_fallback": True}
    pairs["model"]["unk_token"] = "<unk>"
    pairs |= {"normalizer": space, "pre_tokenizer": None}
    pairs["decoder"] = {
        "type": "Sequence",
        "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}],
    }
    pairs["added_tokens"] = [{**level["added_tokens"][0], "id": 1, "content": "<s>"}]
    words["model"] = {"type": "WordLevel", "vocab": level["model"]["vocab"], "unk_token": "a"}
    unigram["model"] = {
        "type": "Unigram",
        "unk_id": 0,
        "vocab": [[t, -float(i)] for t, i in ids.items()],
    }
    unigram |= {"decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}}
    pieces["model"] = {
        "type": "WordPiece",
        "unk_token": "a",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": level["model"]["vocab"],
    }
    return [json.dumps(value) for value in (level, pairs, words, unigram, pieces)]


def use(case: Case) -> None:
    rng, folder = case.rng, case.folder
    value = json.loads(rng.choice(seeds()))
    for _ in range(rng.choice((1, 1, 2, 3))):
        change(value, rng)
    raw = to_json(value)
    path = folder / "tokenizer.json"
    path.write_bytes(mutate_bytes(raw, rng) if rng.random() < 0.05 else raw)
    if rng.random() < 0.005:
        special_file(path, rng)
    tokenizer = Tokenizer.from_huggingface(folder, rng.choice((ROWS, ROWS, ROWS, 280, 5)))
    for text in (*_TEXTS, odd_text(rng)):
        text = text.encode(errors="replace").decode()
        for ids in (
            tokenizer.encode(text, add_special=True),
            tokenizer.encode(text, parse_special=False),
        ):
            tokenizer.decode(ids)
    tokenizer.decode(range(tokenizer.vocab_size))
    assert tokenizer.identity


def change(value: dict[str, Any], rng: random.Random) -> None:
    choice = rng.random()
    if choice < 0.65:
        key = rng.choice(tuple(_COMPONENTS))
        value[key] = component(key, rng)
    elif choice < 0.75:
        added = value.get("added_tokens")
        change_json(added if added and isinstance(added, list | dict) else value, rng)
    elif choice < 0.8:
        value["added_tokens"] = [_added(rng) for _ in range(rng.choice((1, 3)))]
    elif choice < 0.85:
        value[rng.choice(("truncation", "padding"))] = rng.choice((_truncation, _padding))(rng)
    elif choice < 0.93 and isinstance(value.get("model"), dict):
        change_model(value["model"], rng)
    else:
        change_json(value, rng)


def change_model(model: dict[str, Any], rng: random.Random) -> None:
    match rng.choice(("vocab", "merges", "field", "empty", "any")):
        case "vocab" if isinstance(model.get("vocab"), dict) and model["vocab"]:
            token = rng.choice(list(model["vocab"]))
            model["vocab"][rng.choice((token, *_STRINGS))] = rng.choice(
                (0, 1, 299, 300, 2**32 - 1, -1)
            )
        case "merges":
            pairs = (["a", "b"], ["t", "h"], ["", ""], ["▁"], "a b", "ab", ["a", "a"], ["zz", "q"])
            model["merges"] = [rng.choice(pairs) for _ in range(3)]
        case "field":
            name, values = rng.choice(_MODEL_FIELDS)
            model[name] = rng.choice(values)
        case "empty":
            model[rng.choice(("vocab", "merges"))] = rng.choice(({}, []))
        case _:
            change_json(model, rng)


_MODEL_FIELDS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("dropout", (0.0, 0.5, 1.0, 2.0, -1.0, None)),
    ("unk_token", (*_STRINGS, None)),
    ("unk_id", (*_COUNTS, None)),
    ("continuing_subword_prefix", _STRINGS),
    ("end_of_word_suffix", _STRINGS),
    ("fuse_unk", (True, False)),
    ("byte_fallback", (True, False)),
    ("ignore_merges", (True, False)),
    ("max_input_chars_per_word", _COUNTS),
    ("type", ("BPE", "Unigram", "WordLevel", "WordPiece", "x", None)),
)


def component(key: str, rng: random.Random, depth: int = 0) -> Any:
    """One of a kind ("normalizer"), any type of it; sequences hold up to four of these."""
    kinds, inner = _COMPONENTS[key]
    if depth < 3 and rng.random() < 0.2:
        parts = [component(key, rng, depth + 1) for _ in range(rng.randint(0, 4))]
        return {"type": "Sequence", inner: parts}
    name = rng.choice(tuple(kinds))
    value = {"type": name, **{k: rng.choice(options) for k, options in kinds[name].items()}}
    if rng.random() < 0.1:
        change_json(value, rng)
    return value if rng.random() < 0.97 else None


_FLAG = (True, False)
_PAIRS: tuple[Any, ...] = (["</s>", 2], ["<s>", 1], ["", 0], ["no such", 2**32 - 1], ["a", -1], [])
_LEVEL = {"add_prefix_space": _FLAG, "trim_offsets": _FLAG, "use_regex": _FLAG}
_SPACES = {
    "replacement": ("▁", " ", "a", "", "ab"),
    "prepend_scheme": _SCHEMES,
    "split": _FLAG,
    "str_rep": ("▁", "xx"),
}
_NORMALIZERS: dict[str, dict[str, tuple[Any, ...]]] = {
    "BertNormalizer": {
        **dict.fromkeys(("clean_text", "handle_chinese_chars", "lowercase"), _FLAG),
        "strip_accents": (True, False, None),
    },
    **{name: {} for name in ("NFC", "NFD", "NFKC", "NFKD", "Nmt", "Lowercase")},
    **{name: {} for name in ("StripAccents", "ByteLevel")},
    "Strip": {"strip_left": _FLAG, "strip_right": _FLAG},
    "Prepend": {"prepend": _STRINGS},
    "Replace": {"pattern": _PATTERNS, "content": _STRINGS},
    "Precompiled": {"precompiled_charsmap": ("", "AAAA", "/////w==", "x" * 99, "AAAAAAAAAAAA")},
}
_PRE: dict[str, dict[str, tuple[Any, ...]]] = {
    "ByteLevel": _LEVEL,
    **{name: {} for name in ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")},
    "UnicodeScripts": {},
    "CharDelimiterSplit": {"delimiter": ("a", "", " ", "ab", "▁")},
    "Digits": {"individual_digits": _FLAG},
    "FixedLength": {"length": _COUNTS},
    "Metaspace": _SPACES,
    "Punctuation": {"behavior": _BEHAVIORS},
    "Split": {"pattern": _PATTERNS, "behavior": _BEHAVIORS, "invert": _FLAG},
}
_TEMPLATES: tuple[Any, ...] = (
    *([], [{"Sequence": {"id": "A", "type_id": 0}}], [{"Sequence": {"id": "B", "type_id": 2**31}}]),
    [
        {"SpecialToken": {"id": "<|im_start|>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
    ],
    [{"SpecialToken": {"id": "unknown", "type_id": 0}}],
    [{"Sequence": {"id": "A", "type_id": 0}}] * 40,
)
_SPECIALS: tuple[Any, ...] = (
    {},
    {"<|im_start|>": {"id": "<|im_start|>", "ids": [1], "tokens": ["<|im_start|>"]}},
    {"<|im_start|>": {"id": "<|im_start|>", "ids": [], "tokens": []}},
    {"<|im_start|>": {"id": "x", "ids": [2**32 - 1], "tokens": ["a", "b"]}},
)
_POST: dict[str, dict[str, tuple[Any, ...]]] = {
    "BertProcessing": {"sep": _PAIRS, "cls": _PAIRS},
    "RobertaProcessing": {
        "sep": _PAIRS,
        "cls": _PAIRS,
        "trim_offsets": _FLAG,
        "add_prefix_space": _FLAG,
    },
    "ByteLevel": _LEVEL,
    "TemplateProcessing": {"single": _TEMPLATES, "pair": _TEMPLATES, "special_tokens": _SPECIALS},
}
_DECODERS: dict[str, dict[str, tuple[Any, ...]]] = {
    "BPEDecoder": {"suffix": _STRINGS},
    "ByteFallback": {},
    "ByteLevel": _LEVEL,
    "CTC": {"pad_token": _STRINGS, "word_delimiter_token": _STRINGS, "cleanup": _FLAG},
    "Fuse": {},
    "Metaspace": _SPACES,
    "Replace": {"pattern": _PATTERNS, "content": _STRINGS},
    "Strip": {"content": ("a", " ", "", "ab"), "start": _COUNTS, "stop": _COUNTS},
    "WordPiece": {"prefix": _STRINGS, "cleanup": _FLAG},
}
_COMPONENTS = {
    "normalizer": (_NORMALIZERS, "normalizers"),
    "pre_tokenizer": (_PRE, "pretokenizers"),
    "post_processor": (_POST, "processors"),
    "decoder": (_DECODERS, "decoders"),
}


def _added(rng: random.Random) -> dict[str, Any]:
    flags = ("special", "single_word", "lstrip", "rstrip", "normalized")
    return {
        "id": rng.choice((0, 1, 5, 299, 300, 2**22, 2**32 - 1, -1)),
        "content": rng.choice((*_STRINGS, "<|x|>", "e", "the")),
        **{flag: rng.random() < 0.5 for flag in flags},
    }


def _truncation(rng: random.Random) -> dict[str, Any]:
    return {
        "direction": rng.choice(("Left", "Right", "x")),
        "max_length": rng.choice(_COUNTS),
        "strategy": rng.choice(("LongestFirst", "OnlyFirst", "OnlySecond")),
        "stride": rng.choice(_COUNTS),
    }


def _padding(rng: random.Random) -> dict[str, Any]:
    return {
        "strategy": rng.choice(("BatchLongest", {"Fixed": rng.choice(_COUNTS)})),
        "direction": rng.choice(("Left", "Right")),
        "pad_to_multiple_of": rng.choice((*_COUNTS, None)),
        "pad_id": rng.choice((0, 2**32 - 1, -1)),
        "pad_type_id": 0,
        "pad_token": rng.choice(_STRINGS),
    }


def prepare() -> None:
    import_module("tokenizers")
    import_module("llm_lite.core.text.tokenizer_json")
    seeds()


DOOR = Door("tokenizer", use, prepare)
