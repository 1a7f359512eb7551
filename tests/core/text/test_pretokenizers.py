"""Ids by every name of `tokenizer.ggml.pre`, beside the library with what its family published.

A pair encoding is learnt here of texts in several scripts, uncut, so that its pairs cross all words
and digits; then it is given the family's own pre-tokenizer, as its tokenizer.json has it. A GGUF
header of the same tokens and pairs must give the same ids.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import models, trainers

from llm_lite.core.text.pretokenizers import RULES, pretokenizer_note
from llm_lite.core.text.tokenizer import Tokenizer

PATH = Path("model.gguf")
SHORT = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
END = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
WORDS = r"|[^\r\n\p{L}\p{N}]?\p{L}+|"
SIGNS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LEAD = r"[^\r\n\p{L}\p{N}]?"
TEKKEN = (
    f"{LEAD}{UPPER}*{LOWER}+|{LEAD}{UPPER}+{LOWER}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + END
)
GPT_4O = (
    f"{LEAD}{UPPER}*{LOWER}+{SHORT}?|{LEAD}{UPPER}+{LOWER}*{SHORT}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + END
)
LLAMA3 = SHORT + WORDS + r"\p{N}{1,3}" + SIGNS + END
QWEN2 = SHORT + WORDS + r"\p{N}" + SIGNS + END
QWEN35 = SHORT + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + END
SEED = SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+" + END
DEEPSEEK3 = (
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
    "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
    "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
GPT2 = {**BYTES, "use_regex": True}


def split(regex, behavior="Isolated", invert=False):
    pattern = {"Regex": regex}
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


DIGITS = {"type": "Digits", "individual_digits": True}
NFC = {"type": "NFC"}
# name in GGUF: (steps as published, normalizer, whether whole words are taken as they are)
PUBLISHED = {
    "gpt-2": ([GPT2], None, False),
    "smollm": ([DIGITS, GPT2], None, False),
    "refact": ([DIGITS, GPT2], None, False),  # Granite 3
    "llama-bpe": ([split(LLAMA3), BYTES], None, True),
    "smaug-bpe": ([split(LLAMA3), BYTES], None, True),  # SmolLM3
    "dbrx": ([split(LLAMA3, "Removed", True), BYTES], None, False),  # Phi-4, OLMo 2, Granite 4
    "glm4": ([split(LLAMA3), BYTES], None, False),
    "seed-coder": ([split(SEED), BYTES], None, False),  # Seed-OSS
    "qwen2": ([split(QWEN2), BYTES], NFC, False),
    "qwen35": ([split(QWEN35), BYTES], NFC, False),
    "tekken": ([split(TEKKEN), BYTES], None, True),
    "gpt-4o": ([split(GPT_4O, "Removed", True), BYTES], None, False),  # Phi-4-mini, gpt-oss
    "superbpe": ([split(r"\p{N}+"), split(r"(?=(\d{3})+(?!\d))"), BYTES], None, False),
    "bloom": ([split(r" ?[^(\s|[.,!?…。，、।۔،])]+"), BYTES], None, False),
    "hunyuan": ([split(QWEN2), BYTES], NFC, False),
    "hunyuan-dense": (
        [split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"), split(DEEPSEEK3), BYTES],
        None,
        False,
    ),
    "deepseek-coder": (
        [
            split("[\r\n]"),
            split(r"\s?\p{L}+"),
            split(r"\s?\p{P}+"),
            split("[一-龥ࠀ-一가-\ud7ff]+"),
            DIGITS,
            BYTES,
        ],
        None,
        False,
    ),
    "gemma4": ([], {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}, False),
}
TEXTS = {
    "prose": "It's the year 2024; they'll say: \"We've 1,234,567 reasons\" - don't they? IT'S.\n",
    "code": "def f(x):\n    if x > 9:\n\t\treturn {'a': [x[0], 0xFF], **y}  # HTTPServer/v2\n\n\n",
    "Korean": "대한민국은 민주공화국이다. 모든 권력은 국민으로부터 나온다.\n한국어 123개",
    "decomposed": "\u1112\u1161\u11ab\u1100\u116e\u11a8 e\u0301te\u0301 A\u030angstro\u0308m",
    "Chinese": "人人生而自由，在尊严和权利上一律平等。２０２４年１２月",
    "emoji": "👩‍👩‍👧‍👦 ok 🎉🎉 🇰🇷 ☕️ e\u0301",
    "digits": "1 12 123 1234 12345 3.14159 1e-9 ١٢٣٤٥ ⅷ 0x1F",
    "whitespace": "  a \t b\r\n\r\n  c\u00a0d\u3000e\u2003f \n \n\n\n\n   ",
    "marks": "हिन्दी में ไทย עִבְרִית ﬁ ½",
}


@cache
def reference(name):
    """The library with what the family published, and pairs learnt of the texts."""
    steps, normalizer, whole_words = PUBLISHED[name]
    spaced = name == "gemma4"
    library = Library(models.BPE(unk_token="<unk>" if spaced else None))
    document = json.loads(library.to_str())
    document["normalizer"] = normalizer
    document["pre_tokenizer"] = None if spaced else BYTES
    library = Library.from_str(json.dumps(document))
    alphabet = [] if spaced else [chr(c) for c in byte_alphabet()]
    special = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))] if spaced else []
    trainer = trainers.BpeTrainer(
        vocab_size=len(alphabet) + len(special) + 1200,
        initial_alphabet=alphabet,
        special_tokens=special,
        show_progress=False,
    )
    corpus = [text for key, text in TEXTS.items() if not (spaced and key == "emoji")]
    library.train_from_iterator(corpus * 3, trainer)
    document = json.loads(library.to_str())
    document["added_tokens"] = []
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps} if steps else None
    document["model"] |= {"ignore_merges": whole_words}
    if spaced:
        document["model"] |= {"byte_fallback": True, "fuse_unk": True}
    if whole_words:  # words that no merging reaches
        vocabulary = document["model"]["vocab"]
        for word in ("Ġunreached", "xyzzy"):
            vocabulary[word] = len(vocabulary)
    return Library.from_str(json.dumps(document))


def byte_alphabet():
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return visible + [0x100 + i for i in range(256 - len(visible))]


@cache
def ours(name):
    model = json.loads(reference(name).to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    types = [1] * len(tokens)
    if name == "gemma4":
        types[:257] = [2] + [6] * 256
    return Tokenizer.from_gguf(
        {
            "tokenizer.ggml.model": "gemma4" if name == "gemma4" else "gpt2",
            "tokenizer.ggml.pre": name,
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": types,
            "tokenizer.ggml.merges": [" ".join(pair) for pair in model["merges"]],
        },
        PATH,
    )


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", PUBLISHED)
def test_ids_equal_the_library(name, text):
    ids = ours(name).encode(TEXTS[text], parse_special=False)
    assert ids == reference(name).encode(TEXTS[text]).ids
    if PUBLISHED[name][1] != NFC:
        assert ours(name).decode(ids) == TEXTS[text]


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(PUBLISHED)), st.lists(st.sampled_from(sorted(TEXTS))), st.randoms())
def test_ids_of_mixed_texts_equal_the_library(name, chosen, random):
    pieces = [text[random.randrange(len(text)) :][:9] for text in map(TEXTS.get, chosen)]
    text = "".join(pieces)
    assert ours(name).encode(text, parse_special=False) == reference(name).encode(text).ids


@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from(sorted(PUBLISHED)),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cn"])),
)
@example("gemma4", "a  b\n\n\nc 🎉 ")
@example("superbpe", "1234567 12 123")
def test_ids_of_any_text_equal_the_library(name, text):
    """Of assigned characters: the two know Unicode of different years."""
    assert ours(name).encode(text, parse_special=False) == reference(name).encode(text).ids


@pytest.mark.parametrize("name", ["llama-bpe", "smaug-bpe", "tekken"])
def test_a_word_that_is_a_token_is_taken_whole(name):
    tokenizer = ours(name)
    (word,) = tokenizer.encode(" unreached", parse_special=False)
    assert tokenizer.token_text(word) == "Ġunreached"


def test_every_family_s_name_is_known():
    assert PUBLISHED.keys() - {"gemma4"} <= RULES.keys()  # a kind of its own, which cuts nothing


@pytest.mark.parametrize(
    ("name", "begins"),
    [("llama-bpe", True), ("tekken", True), ("gemma4", True)]
    + [(n, False) for n in ("gpt-2", "qwen2", "smaug-bpe", "dbrx", "gpt-4o", "refact", "smollm")],
)
def test_what_begins_a_text_where_the_file_says_nothing(name, begins):
    model = json.loads(reference(name).to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    spaced = name == "gemma4"
    types = ([2] + [6] * 256 if spaced else []) + [1] * len(tokens)
    header = {
        "tokenizer.ggml.model": "gemma4" if spaced else "gpt2",
        "tokenizer.ggml.pre": name,
        "tokenizer.ggml.tokens": [*tokens, "<s>"],
        "tokenizer.ggml.token_type": [*types[: len(tokens)], 3],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in model["merges"]],
        "tokenizer.ggml.bos_token_id": len(tokens),
    }
    around = (len(tokens),), ()
    assert (Tokenizer.from_gguf(header, PATH).around == around) is begins
    header["tokenizer.ggml.add_bos_token"] = not begins
    begins_now = not begins or spaced
    assert (Tokenizer.from_gguf(header, PATH).around == around) is begins_now


# Names that llama.cpp reads by one rule, and their families' own: an alias cuts as they do.
ALIASES = {
    "gpt-2": "jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code gigachat a.x-4.0 mellum"
    " modern-bert jais trillion granite-docling roberta-bpe exaone4 phi-2 mpt olmo",
    "refact": "starcoder command-r smollm codeshell exaone minerva-7b mellum2",
    "llama-bpe": "llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
    "qwen2": "deepseek-r1-qwen f2llmv2 hunyuan stablelm2",
    "gpt-4o": "llama4 kanana2 talkie minimax-m2",
    "bloom": "poro-chat gpt3-finnish",
    "hunyuan-dense": "deepseek-v3 joyai-llm hy_v4",
    "bailingmoe": "bailingmoe2 llada-moe",
    "tiny_aya": "cohere2moe",
    "glm4": "chatglm-bpe dbrx",
    "megrez": "kormo grok-2 solar-open",
}
NOT_HERE = ("afmoe", "chameleon", "falcon", "kimi-k2", "spark2_5", "whitespace", "youtu")


@pytest.mark.parametrize("name", ALIASES)
def test_aliases_are_one_rule(name):
    for alias in ALIASES[name].split():
        assert RULES[alias] == RULES[name], alias
        assert pretokenizer_note({**HEADER, "tokenizer.ggml.pre": alias}) == ""


@pytest.mark.parametrize("name", NOT_HERE)
def test_what_is_not_here_is_said(name):
    assert repr(name) in pretokenizer_note({**HEADER, "tokenizer.ggml.pre": name})


def test_digits_are_counted_from_the_right_where_a_family_does():
    words = [*map(chr, byte_alphabet()), "12", "34", "123", "345"]
    merges = ["1 2", "3 4", "12 3", "34 5"]
    header = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.merges": merges,
    }
    cut = {}
    for name in ("tiny_aya", "gpt-4o"):
        made = Tokenizer.from_gguf({**header, "tokenizer.ggml.pre": name}, PATH)
        cut[name] = [made.token_text(i) for i in made.encode("12345")]
    assert cut == {"tiny_aya": ["12", "345"], "gpt-4o": ["123", "4", "5"]}


HEADER = {"tokenizer.ggml.model": "gpt2"}


def test_a_name_that_is_not_known_is_told_and_read_as_the_default():
    header = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "klingon"}
    assert "'klingon'" in pretokenizer_note(header)
    assert "names no pre-tokenizer" in pretokenizer_note({"tokenizer.ggml.model": "gpt2"})
    for known in ({**header, "tokenizer.ggml.pre": "qwen2"}, {"tokenizer.ggml.model": "llama"}):
        assert pretokenizer_note(known) == ""
