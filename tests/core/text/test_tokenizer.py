"""The tokenizer against the reference's ids, arbitrary text and malformed vocabularies."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

from llm_lite.core.errors import FileError, RequestError, UnsupportedError
from llm_lite.core.formats.gguf_reader import open_gguf
from llm_lite.core.hub.catalog import resolve
from llm_lite.core.text import tokenizer
from llm_lite.core.text.pretokenizers import RULES
from llm_lite.core.text.tokenizer import StreamDecoder, Tokenizer
from tests.make_gguf import byte_characters, tokenizer_metadata
from tests.paths import FIXTURES

PATH = Path("model.gguf")
FIXTURE = json.loads((FIXTURES / "smollm2_texts.json").read_text(encoding="utf-8"))
IM_END = "<|im_end|>"


@pytest.fixture(scope="module")
def smollm2() -> Tokenizer:
    path = resolve("smollm2-135m-instruct")
    return Tokenizer.from_gguf(open_gguf(path).metadata, path)


def tiny(**changes: object) -> Tokenizer:
    metadata = tokenizer_metadata(300)
    for key, value in changes.items():
        metadata[f"tokenizer.ggml.{key}"] = value
    return Tokenizer.from_gguf(metadata, PATH)


TINY = tiny()


def piece_metadata() -> dict[str, object]:
    """A SentencePiece vocabulary: unknown, begin, end, 256 bytes, then text."""
    words = {"▁": -20.0, "a": -21.0, "b": -22.0, "c": -23.0, "ab": -2.0, "bc": -1.0, "▁a": -3.0}
    words |= {"▁ab": -4.0, "▁abc": -0.5}
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    scores = [0.0] * 259 + list(words.values())
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * len(words),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


PIECES = Tokenizer.from_gguf(piece_metadata(), PATH)


def spelled(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    return [tokenizer.token_text(i) for i in ids]


@pytest.mark.parametrize("name", [text["name"] for text in FIXTURE["texts"]])
def test_ids_equal_the_reference(smollm2: Tokenizer, name: str) -> None:
    entry = next(text for text in FIXTURE["texts"] if text["name"] == name)
    assert smollm2.encode(entry["text"], parse_special=False) == entry["token_ids"]
    assert smollm2.decode(entry["token_ids"]) == entry["text"]


def test_facts_of_smollm2(smollm2: Tokenizer) -> None:
    assert smollm2.vocab_size == 49152
    assert (smollm2.bos_id, smollm2.eos_id, smollm2.end_ids) == (1, 2, {0, 2})
    assert smollm2.encode("a", add_special=True) == smollm2.encode("a")


def test_characters_without_bytes_in_the_vocabulary_become_replacements(
    smollm2: Tokenizer,
) -> None:
    """SmolLM2 has no token for byte 0x04, among others."""
    assert smollm2.decode(smollm2.encode("a\x04b")) == "a\ufffdb"


@settings(deadline=None, max_examples=300)
@given(st.text(st.characters(codec="utf-8")))
@example("\r\n \t\u00a0 x")
@example("<|im_end|> <|im_start|>user")
def test_decoding_gives_the_text_back(text: str) -> None:
    for trusted in (True, False):
        assert TINY.decode(TINY.encode(text, parse_special=trusted)) == text


@settings(deadline=None, max_examples=200)
@given(st.text(st.characters(codec="utf-8", exclude_characters="▁")))
@example("abc  abc")
def test_pieces_give_the_text_back(text: str) -> None:
    assert PIECES.decode(PIECES.encode(text, parse_special=False)) == text


@pytest.mark.parametrize("pre", sorted(RULES))
def test_every_rule_keeps_every_character(pre: str) -> None:
    tokenizer = tiny(pre=pre)
    text = "It's 12345 o'clock\r\n\n  in Straße; 한국어 🎉 ١٢٣ HTTPServer's\t_x = [a+b]\u3000end  "
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize(
    ("pre", "digits"),
    [("gpt-2", ["12345"]), ("qwen2", list("12345")), ("llama-bpe", ["123", "45"])],
)
def test_rules_differ_in_digits(pre: str, digits: list[str]) -> None:
    characters = byte_characters()
    pairs = [("1", "2"), ("12", "3"), ("123", "4"), ("1234", "5"), ("4", "5")]
    tokens = [*characters, *("".join(pair) for pair in pairs)]
    tokenizer = Tokenizer.from_gguf(
        {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": pre,
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.merges": [" ".join(pair) for pair in pairs],
        },
        PATH,
    )
    assert spelled(tokenizer, tokenizer.encode("12345")) == digits


def test_control_tokens_count_in_trusted_text_only() -> None:
    end = TINY.encode(IM_END)
    assert len(end) == 1 and TINY.is_special(end[0])
    plain = TINY.encode(IM_END, parse_special=False)
    assert not any(TINY.is_special(i) for i in plain)
    assert TINY.decode(plain) == IM_END


def test_segments_are_encoded_as_one_text() -> None:
    parts = [("<|im_start|>user\n", True), ("\n\nthe <|im_end|>", False), (" th", False)]
    ids = TINY.encode_segments([*parts, ("e<|im_end|>", True)])
    assert [TINY.token_text(i) for i in ids if TINY.is_special(i)] == ["<|im_start|>", IM_END]
    assert "Ġthe" in spelled(TINY, ids[-3:])
    assert TINY.decode(ids) == "<|im_start|>user\n\n\nthe <|im_end|> the<|im_end|>"


def test_a_control_token_across_a_border_is_text() -> None:
    for cut in range(1, len(IM_END)):
        parts = [(IM_END[:cut], True), (IM_END[cut:], False)]
        assert not any(TINY.is_special(i) for i in TINY.encode_segments(parts))


def test_merges_cannot_reach_a_control_token() -> None:
    metadata = tokenizer_metadata(300)
    metadata["tokenizer.ggml.tokens"][0] = "er<"  # type: ignore[index]
    metadata["tokenizer.ggml.merges"].append("er <")  # type: ignore[attr-defined]
    metadata["tokenizer.ggml.pre"] = "llama-bpe"
    tokenizer = Tokenizer.from_gguf(metadata, PATH)
    assert 0 not in tokenizer.encode("er<", parse_special=False)
    assert tokenizer.encode("er<") == [0]


def test_user_defined_tokens_are_text_unless_they_look_like_control() -> None:
    types = [3, 4, 3] + [1] * 294 + [4, 1, 1]
    tokenizer = tiny(token_type=types)
    word = tokenizer.token_text(297)
    assert 297 in tokenizer.encode(f"x{word}x", parse_special=False)
    assert not tokenizer.is_special(297)
    assert 1 not in tokenizer.encode("<|im_start|>", parse_special=False)


def test_begin_and_end_tokens_where_the_file_asks() -> None:
    tokenizer = tiny(add_bos_token=True, add_eos_token=True)
    assert tokenizer.encode("", add_special=True) == [1, 2]
    assert tokenizer.encode("") == []
    assert PIECES.encode("", add_special=True) == [1]


def test_pieces_merge_by_score_then_from_the_left() -> None:
    assert spelled(PIECES, PIECES.encode("abc")) == ["▁abc"]
    assert spelled(PIECES, PIECES.encode("cabc")) == ["▁", "c", "a", "bc"]
    assert spelled(PIECES, PIECES.encode("a é")) == ["▁a", "▁", "<0xC3>", "<0xA9>"]


@pytest.mark.parametrize("kind", [3, 4])
def test_a_space_stands_behind_marks_of_pieces(kind: int) -> None:
    """Behind added tokens too, whether these are control tokens or not: Mixtral's fine-tunes were
    trained so, by transformers' early form of Llama's tokenizer."""
    metadata = piece_metadata()
    extra = {"tokens": "<|im_start|>", "token_type": kind, "scores": 0.0}
    for key, value in extra.items():
        metadata[f"tokenizer.ggml.{key}"] = [*metadata[f"tokenizer.ggml.{key}"], value]  # type: ignore[misc]
    tokenizer = Tokenizer.from_gguf(metadata, PATH)
    found = spelled(tokenizer, tokenizer.encode("<|im_start|>ab", add_special=True))
    assert found == ["<s>", "<|im_start|>", "▁ab"]
    assert spelled(tokenizer, tokenizer.encode("ab", behind=[tokenizer.encode("ab")[0]])) == ["ab"]


def test_pieces_without_bytes_use_the_unknown_token() -> None:
    metadata = piece_metadata()
    for key in ("tokens", "scores", "token_type"):
        values = metadata[f"tokenizer.ggml.{key}"]
        metadata[f"tokenizer.ggml.{key}"] = values[:3] + values[259:]  # type: ignore[index]
    tokenizer = Tokenizer.from_gguf(metadata, PATH)
    assert tokenizer.encode("aé") == [tokenizer.encode("a")[0], 0]


def test_lone_surrogates_are_refused() -> None:
    with pytest.raises(RequestError, match=r"U\+D800.*character 2"):
        TINY.encode("ab\ud800")


def test_ids_outside_the_vocabulary_are_refused() -> None:
    for bad in (-1, 300):
        with pytest.raises(RequestError, match=str(bad)):
            TINY.decode([bad])


def test_identity_follows_the_vocabulary() -> None:
    assert TINY.identity == tiny().identity
    assert TINY.identity != tiny(pre="gpt-2").identity
    assert TINY.identity != tiny(token_type=[3] * 4 + [1] * 296).identity


@settings(deadline=None, max_examples=200)
@given(st.lists(st.integers(0, 299)))
def test_stream_of_any_ids_equals_decoding_them_at_once(ids: list[int]) -> None:
    decoder = StreamDecoder(TINY)
    parts = [decoder.feed(i) for i in ids]
    assert "".join([*parts, decoder.flush()]) == TINY.decode(ids)


def test_stream_gives_whole_characters_at_once() -> None:
    decoder = StreamDecoder(TINY)
    parts = [decoder.feed(i) for i in TINY.encode("é한🎉")]
    assert parts == ["", "é", "", "", "한", "", "", "", "🎉"]
    assert decoder.flush() == ""


def test_stream_replaces_bytes_that_are_no_character() -> None:
    def byte(value: int) -> int:
        return 3 + value

    decoder = StreamDecoder(TINY)
    assert decoder.feed(byte(0xE2), byte(0x41)) == "\ufffdA"
    assert decoder.feed(byte(0xF0)) == "" and decoder.flush() == "\ufffd"
    assert decoder.feed(byte(0x41), 2) == f"A{IM_END}"
    assert StreamDecoder(TINY, skip_special=True).feed(byte(0x41), 2) == "A"


def test_token_bytes_are_raw() -> None:
    assert [TINY.token_bytes(3 + i) for i in range(256)] == [bytes([i]) for i in range(256)]
    assert TINY.token_bytes(2) == IM_END.encode()
    assert PIECES.token_bytes(3 + 0xFF) == b"\xff"
    assert PIECES.token_bytes(PIECES.encode("abc")[0]) == b" abc"


TOKENS = [*tokenizer_metadata(300)["tokenizer.ggml.tokens"]]  # type: ignore[misc]
MALFORMED = {
    "no tokens": ({"tokens": None}, "tokens is missing"),
    "tokens no array": ({"tokens": "abc"}, "tokens is 'abc', expected an array"),
    "tokens empty": ({"tokens": []}, "tokens is empty"),
    "token no string": ({"tokens": [*TOKENS[:-1], 7]}, r"tokens\[299\] is 7, expected a string"),
    "no merges": ({"merges": None}, "merges is missing"),
    "types short": ({"token_type": [1]}, "token_type has 1 elements, but there are 300 tokens"),
    "type text": ({"token_type": ["1"] * 300}, r"token_type\[0\] is '1', expected"),
    "end text": ({"eos_token_id": "2"}, "eos_token_id is '2', expected a token id"),
    "flag text": ({"add_bos_token": "no"}, "add_bos_token is 'no', expected true or false"),
    "pre number": ({"pre": 3}, "pre is 3, expected a string"),
    "no model": ({"model": None}, "model is missing"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_vocabularies_are_named(case: str) -> None:
    changes, message = MALFORMED[case]
    with pytest.raises(FileError, match=rf"model\.gguf: tokenizer\.ggml\.{message}"):
        tiny(**changes)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("scores", [0.0], "scores has 1 elements"),
        ("scores", [float("nan")] * 268, r"scores\[0\] is nan"),
    ],
)
def test_malformed_pieces_are_named(key: str, value: object, message: str) -> None:
    metadata = piece_metadata() | {f"tokenizer.ggml.{key}": value}
    with pytest.raises(FileError, match=message):
        Tokenizer.from_gguf(metadata, PATH)


# What llama.cpp opens too, with a line in its log or without one.
LENIENT = {
    "token twice": ({"tokens": [*TOKENS[:-1], "!"]}, r"tokens[299] is '!', as token 36"),
    "token empty": ({"tokens": [*TOKENS[:-2], "", ""]}, "tokens[299] is '', as token 298"),
    "token not UTF-8": ({"tokens": [*TOKENS[:-1], "\udcff"], "merges": []}, None),
    "merge of one": ({"merges": ["Ġ", "e r"]}, "merges has 1 of 2 elements"),
    "merge of nothing": ({"merges": ["a "]}, "merges has 1 of 1 elements"),
    "merge unknown": ({"merges": ["Ġ qq"]}, "no two tokens which make one: 'Ġ qq'"),
    "merge union unknown": ({"merges": ["q q"]}, "no two tokens which make one: 'q q'"),
    "types long": ({"token_type": [1] * 301}, "token_type[0] is of '<|endoftext|>'"),
    "type unknown": ({"token_type": [3, 3, 3, *[9] * 297]}, None),
    "begin outside": ({"bos_token_id": 300}, "bos_token_id is 300, but there are 300 tokens"),
    "end of 32 bits": ({"eos_token_id": 2**32 - 1}, "eos_token_id is 4294967295"),
    "end negative": ({"eos_token_id": -1}, "eos_token_id is -1"),
}


@pytest.mark.parametrize("case", LENIENT)
def test_what_others_only_warn_of_is_told_and_read(case: str) -> None:
    changes, note = LENIENT[case]
    tokenizer = tiny(**changes)
    assert not tokenizer.notes if note is None else note in tokenizer.notes[0]
    text = "the 1 <|im_end|>!"
    ids = tokenizer.encode(text, parse_special=False)
    assert tokenizer.decode(ids) == text
    assert ids == sorted_out(changes).encode(text, parse_special=False)
    assert tokenizer.end_ids == {0, 2}


def sorted_out(changes: dict[str, object]) -> Tokenizer:
    """The same vocabulary without what is wrong in it."""
    merges = changes.get("merges")
    kept = [merge for merge in merges if merge == "e r"] if isinstance(merges, list) else None
    return TINY if kept is None else tiny(merges=kept)


def test_text_becomes_the_first_of_equal_tokens() -> None:
    for kind in (tokenizer_metadata(300), piece_metadata()):
        tokens = [*kind["tokenizer.ggml.tokens"]]  # type: ignore[misc]
        again = tokens.index("t" if "t" in tokens else "▁a")
        extra = {"tokens": tokens[again], "token_type": 1, "scores": 0.0}
        longer = {
            key: [*value, extra[key.rpartition(".")[2]]]
            if key.rpartition(".")[2] in extra
            else value
            for key, value in kind.items()
        }
        twice = Tokenizer.from_gguf(longer, PATH)
        once = Tokenizer.from_gguf(kind, PATH)
        for text in ("t", "a", "the", "abc a t"):
            assert twice.encode(text) == once.encode(text)
        assert twice.decode([len(tokens)]) == once.decode([again])


def test_pieces_need_neither_scores_nor_named_special_tokens() -> None:
    metadata = piece_metadata()
    for key in ("scores", "bos_token_id", "eos_token_id", "unknown_token_id"):
        del metadata[f"tokenizer.ggml.{key}"]
    tokenizer = Tokenizer.from_gguf(metadata, PATH)
    assert (tokenizer.bos_id, tokenizer.eos_id) == (1, 2)
    assert spelled(tokenizer, tokenizer.encode("abc", add_special=True)) == ["<s>", "▁abc"]
    metadata["tokenizer.ggml.token_type"] = [2, 3, 3] + [1] * 5 + [6] * 260
    assert Tokenizer.from_gguf(metadata, PATH).token_bytes(267) == b" abc"


def test_xlm_roberta_s_files_need_not_say_what_stands_around_texts() -> None:
    """Early files of BGE-M3 lack the flags, and their vectors were others."""
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "▁a", "▁", "b"]
    metadata = {
        "general.architecture": "bert",
        "tokenizer.ggml.model": "t5",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0, 0.0, 0.0, 0.0, -1.0, -2.0, -3.0],
        "tokenizer.ggml.token_type": [3, 3, 3, 2, 1, 1, 1],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 3,
    }
    assert Tokenizer.from_gguf(metadata, PATH).encode("a b", add_special=True) == [0, 4, 5, 6, 2]
    t5 = Tokenizer.from_gguf({**metadata, "general.architecture": "t5"}, PATH)
    assert t5.encode("a b", add_special=True) == [4, 5, 6, 2]


def test_what_ends_a_turn_is_control_whatever_its_type() -> None:
    """As llama.cpp has it: files made by hand give every token the type of text."""
    tokenizer = tiny(token_type=None)
    assert tokenizer.is_special(2) and tokenizer.encode(IM_END) == [2]
    assert 2 not in tokenizer.encode(IM_END, parse_special=False)


def test_unknown_kinds_are_named() -> None:
    with pytest.raises(UnsupportedError, match="'rwkv'"):
        tiny(model="rwkv")


def test_an_unknown_pre_tokenizer_is_read_as_the_default() -> None:
    text = "It's 12345 o'clock; 한국어 🎉"
    assert tiny(pre="klingon").encode(text) == tiny(pre="default").encode(text)


# Of each family: control tokens of its vocabulary, the end token its file names, what ends a turn.
FAMILIES = {
    "Llama 3": (["<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|eot|>"], 2, {0, 1, 2}),
    "Qwen": (["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>"], 2, {0, 2}),
    "Gemma 2 and 3": (["<eos>", "<start_of_turn>", "<end_of_turn>", "<bos>"], 0, {0, 2}),
    "Gemma 4": (["<eos>", "<|turn>", "<turn|>", "<|channel>", "<channel|>"], 0, {0, 2}),
    "Phi": (["<|endoftext|>", "<|user|>", "<|end|>", "<|assistant|>"], 0, {0, 2}),
    "Mistral": (["<s>", "</s>", "[INST]", "[/INST]"], 1, {1}),
    "SmolLM3": (["<|end_of_text|>", "<|im_start|>", "<|im_end|>"], 2, {0, 2}),
    "Granite": (["<|end_of_text|>", "<|start_of_role|>", "<|end_of_role|>"], 0, {0}),
    "GPT-2, OLMo 2": (["<|endoftext|>", "<|user|>", "<|assistant|>"], 0, {0}),
    "Harmony": (["<|return|>", "<|call|>", "<|end|>", "<|channel|>"], 0, {0, 1}),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_what_ends_a_turn(family: str) -> None:
    control, named, ends = FAMILIES[family]
    tokens = [*control, *TOKENS[3:300]]
    types = [3] * len(control) + [1] * 297
    merges: list[str] = []
    tokenizer = tiny(tokens=tokens, token_type=types, merges=merges, eos_token_id=named)
    assert tokenizer.end_ids == ends


def test_strikethrough_is_no_end() -> None:
    """Gemma's vocabulary has HTML's </s> as text."""
    types = [3, 4, 3] + [1] * 297
    tokens = ["<eos>", "</s>", "<end_of_turn>", *TOKENS[3:]]
    assert tiny(tokens=tokens, token_type=types, merges=[], eos_token_id=0).end_ids == {0, 2}


def test_phi_3_s_marks_take_whitespace_along() -> None:
    """As its tokenizer.json has them: behind <|user|> comes the first word, not a line break."""
    metadata = piece_metadata() | {"general.architecture": "phi3"}
    names, types, scores = (
        [*metadata[f"tokenizer.ggml.{key}"]]  # type: ignore[misc]
        for key in ("tokens", "token_type", "scores")
    )
    metadata |= {
        "tokenizer.ggml.tokens": [*names, "<|user|>", "<|end|>", "<|endoftext|>"],
        "tokenizer.ggml.token_type": [*types, 3, 3, 3],
        "tokenizer.ggml.scores": [*scores, 0.0, 0.0, 0.0],
    }
    phi = Tokenizer.from_gguf(metadata, PATH)
    marks = ["<|user|>", "▁abc", "<|end|>", "<|endoftext|>"]
    assert spelled(phi, phi.encode("<|user|>\nabc<|end|>\n<|endoftext|>")) == marks
    assert spelled(phi, phi.encode("<|endoftext|>\n"))[1:] == ["▁", "<0x0A>"]
    other = Tokenizer.from_gguf({**metadata, "general.architecture": "llama"}, PATH)
    assert "<0x0A>" in spelled(other, other.encode("<|user|>\nabc"))
    assert other.identity != phi.identity


def mutations(count: int) -> Iterator[dict[str, object]]:
    rng = random.Random(7)
    values = (None, "", "x", -1, 2**70, 1.5, True, [], [None], ["a", "a"], [[1]], {}, b"x", ["a b"])
    keys = list(tokenizer_metadata(300))
    for _ in range(count):
        metadata = tokenizer_metadata(300)
        for key in rng.sample(keys, rng.randrange(1, 4)):
            held = metadata[key]
            if isinstance(held, list) and rng.random() < 0.6:
                held[rng.randrange(len(held))] = rng.choice(values)
            else:
                metadata[key] = rng.choice(values)
        yield metadata


def test_any_damage_is_an_expected_error() -> None:
    refused = 0
    for metadata in mutations(600):
        try:
            Tokenizer.from_gguf(metadata, PATH).encode("the 1", add_special=True)
        except (FileError, UnsupportedError):
            refused += 1
    assert 300 < refused < 600


def test_thousands_of_marked_tokens_match_like_a_few(monkeypatch):
    """The tree of alternatives finds what the plain list of them finds: the longest, leftmost."""

    texts = [f"<u{i}>" for i in range(300)] + ["<", "<u", "<u1", "\n", "\n\n", "a.b", "a.bc", "[x]"]
    tree = tokenizer.any_of(texts)
    monkeypatch.setattr(tokenizer, "_WORTH_A_TREE", 10**6)
    plain = tokenizer.any_of(texts)
    assert tree.pattern != plain.pattern
    for text in ("<u1><u12>x<u300><u", "\n\n\n a.bcd axb <u29", "[x] <<u7", "".join(texts)):
        assert [m.span() for m in tree.finditer(text)] == [m.span() for m in plain.finditer(text)]
        assert tree.findall(text)


def test_what_a_unigram_vocabulary_lacks_is_its_unknown_token(tmp_path: Path) -> None:
    """And the words around it stay what they are; names of control tokens are text."""
    file = FIXTURES / "tokenizers" / "t5" / "tokenizer.json"
    (tmp_path / "tokenizer.json").write_bytes(file.read_bytes())
    named = {"unk_token": "<unk>", "eos_token": "</s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(named))
    library = Library.from_file(str(file))
    library.encode_special_tokens = True
    tokenizer = Tokenizer.from_huggingface(tmp_path, library.get_vocab_size())
    unknown = library.token_to_id("<unk>")
    for text in ("the unbelievable \u2603 house", "한국어 \U0001f642", "a plain text"):
        found = tokenizer.encode(text, add_special=True)
        assert found == library.encode(text).ids
        assert (unknown in found) == ("plain" not in text)
    end = library.token_to_id("</s>")
    assert end not in tokenizer.encode("a </s> b", parse_special=False)
