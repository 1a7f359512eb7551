"""The vocabulary in a GGUF header, checked.

Format: `tokenizer.ggml.*` in https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Mapping, Sequence
from enum import IntEnum
from pathlib import Path

from msgspec import Struct

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.files.json_text import found
from llm_lite.core.text.pretokenizers import DEFAULT, rule_of

BYTE_LEVEL_BPE = "gpt2"
SENTENCE_PIECE = "llama"
WORD_PIECE = "bert"
UNIGRAM = "t5"
BYTES = "byt5"  # a name of ours: a token is a byte
WORD_ENDS = "gpt"  # a name of ours: pairs of characters, and a mark behind each word
WORD_END = "</w>"
SPACED_BPE = "gemma4"  # pairs of characters, "▁" for spaces
Around = tuple[tuple[int, ...], tuple[int, ...]]  # ids before and behind a text
_USUAL = {  # special tokens that files of a kind need not name
    SENTENCE_PIECE: {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0},
    UNIGRAM: {"eos_token_id": 1, "unknown_token_id": 2},
}


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Tokens that end a turn in one family of models or another, when they are not ordinary text.
END_TOKENS = names(
    "<|im_end|> <|endoftext|> <|eot_id|> <|eom_id|> <|end_of_text|> <|end|> <|return|> <|call|> "
    "<|EOT|> <|end_of_turn|> <end_of_turn> <turn|> <|tool_response> <|END_OF_TURN_TOKEN|> "
    "<｜end▁of▁sentence｜> <end_of_utterance> </s> <eos> <EOT> _<EOT> [EOT] [EOS]"
)
# Those of them that are no text of any language: control, whatever type a file gives them.
_NO_TEXT = END_TOKENS - names("</s> <eos> [EOS]")
_LARGEST_SCORE = 1 << 64  # as an integer: JSON has longer ones than floats can be


class TokenType(IntEnum):
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class Normalization(Struct, frozen=True):
    """The normalisation of BERT's text before it is cut; strip_accents None: if it is lowercase."""

    lowercase: bool
    split_chinese: bool = True  # characters of Chinese are words of their own
    strip_accents: bool | None = None


class Vocabulary(Struct, frozen=True):
    """Tokens by id with what the file says about them; every id lies in range(len(tokens)).

    Numbers are packed: of 262,144 tokens the scores alone would be 8 MB of objects.
    """

    path: Path
    model: str  # a kind named above
    pre: str  # name of the rule that cuts text into words; pair encodings only
    tokens: tuple[str, ...]
    types: bytes  # of TokenType
    scores: array[float]  # SentencePiece only: the higher, the earlier merged
    merges: tuple[tuple[str, str], ...]  # pair encodings only: in order of priority
    bos_id: int | None
    eos_id: int | None
    marked_end_ids: frozenset[int]  # other ids that the file says end a turn
    unknown_id: int | None
    around: Around  # what the file puts before and behind every text
    add_space_prefix: bool
    leads_once: bool = False  # the space before a text stands behind no control token
    stripping: frozenset[int] = frozenset()  # control tokens that take whitespace after them along
    stripping_before: frozenset[int] = frozenset()  # and those that take whitespace before them
    standing_alone: frozenset[int] = frozenset()  # marked tokens that are none within a word
    mask_id: int | None = None  # what stands for a token that is to be guessed
    around_pair: tuple[tuple[int, ...], ...] = ()  # ids before, between and behind two texts
    normalization: Normalization | None = None  # of WORD_PIECE, where the library does not know it
    charsmap: bytes = b""  # of UNIGRAM: compiled rules of normalisation
    joins_spaces: bool = True  # of UNIGRAM: several become one
    notes: tuple[str, ...] = ()  # sentences on what was wrong in the file and is left out

    def identity(self) -> str:
        """Hash all that decides which ids a text becomes, as 32 hex digits."""
        digest = hashlib.sha256(repr((self.model, self.pre, self.add_space_prefix)).encode())
        digest.update("\0".join(self.tokens).encode("utf-8", "surrogateescape"))
        digest.update(self.types)
        digest.update(repr(tuple(self.scores)).encode())
        digest.update("\0".join(" ".join(pair) for pair in self.merges).encode())
        if self.stripping:
            digest.update(repr(sorted(self.stripping)).encode())
        if self.stripping_before:
            digest.update(repr(sorted(self.stripping_before)).encode())
        if self.standing_alone:
            digest.update(f"alone {sorted(self.standing_alone)}".encode())
        if self.charsmap or not self.joins_spaces:
            digest.update(self.charsmap + bytes([self.joins_spaces]))
        if self.normalization is not None:
            digest.update(repr(self.normalization).encode())
        return digest.hexdigest()[:32]


def around_text(begin: int | None, end: int | None) -> Around:
    """Return what stands around a text: a begin and an end token, where these are not None."""
    return () if begin is None else (begin,), () if end is None else (end,)


def pair_of_roberta(bos: int | None, eos: int | None) -> tuple[tuple[int, ...], ...]:
    """Return the ids around two texts: <s> A </s></s> B </s>; () if one of these is missing."""
    return () if bos is None or eos is None else ((bos,), (eos, eos), (eos,))


def read_vocabulary(metadata: Mapping[str, object], path: Path) -> Vocabulary:
    """Read a vocabulary. UnsupportedError for another kind of tokenizer, FileError for a malformed
    one."""
    return VocabularyReader(metadata, path).vocabulary()


class VocabularyReader:
    """The keys `tokenizer.ggml.*` of a file, each checked when it is asked for."""

    def __init__(self, metadata: Mapping[str, object], path: Path) -> None:
        self.metadata, self.path = metadata, path
        self.notes: list[str] = []

    def vocabulary(self) -> Vocabulary:
        model = self.kind()
        pre = self.text("pre", DEFAULT) if model != SPACED_BPE else SPACED_BPE  # it cuts nothing
        tokens = self.tokens()
        is_bpe = model not in (SENTENCE_PIECE, UNIGRAM)
        adds_bos = not is_bpe or rule_of(pre).add_bos
        others = [self.token_id(f"{name}_token_id", tokens) for name in ("eot", "eom")]
        types = self.types(tokens)
        merges = self.merges(frozenset(tokens)) if is_bpe else ()
        bos, eos = (self.token_id(f"{name}_token_id", tokens) for name in ("bos", "eos"))
        encodes = self.metadata.get("general.architecture") == "bert"  # RoBERTa's files
        # Early files of Gemma 4 say that it takes no begin token, and it does.
        begins = self.flag("add_bos_token", adds_bos or encodes) or model == SPACED_BPE
        ends = self.flag("add_eos_token", encodes or model == UNIGRAM)
        mask = self.token_id("mask_token_id", tokens)
        return Vocabulary(
            path=self.path,
            model=model,
            pre=pre,
            tokens=tokens,
            types=types,
            scores=array("d") if is_bpe else self.scores(len(tokens)),
            merges=merges,
            bos_id=bos,
            eos_id=eos,
            marked_end_ids=frozenset(other for other in others if other is not None),
            unknown_id=self.token_id("unknown_token_id", tokens),
            around=around_text(bos if begins else None, eos if ends else None),
            add_space_prefix=self.flag("add_space_prefix", not is_bpe),
            stripping=self.stripping(model, tokens, types),
            stripping_before=frozenset(() if mask is None or not encodes else (mask,)),
            mask_id=mask,
            around_pair=pair_of_roberta(bos, eos) if encodes else (),
            notes=tuple(self.notes),
        )

    def note(self, key: str, problem: str) -> None:
        """Keep a sentence on what a file has wrong and can be used without."""
        self.notes.append(f"tokenizer.ggml.{key} {problem}")

    def fail(self, key: str, problem: str) -> FileError:
        return FileError(self.path, f"tokenizer.ggml.{key} {problem}")

    def get(self, key: str) -> object:
        return self.metadata.get(f"tokenizer.ggml.{key}")

    def kind(self) -> str:
        model = self.text("model", None)
        known = (BYTE_LEVEL_BPE, SENTENCE_PIECE, SPACED_BPE, WORD_PIECE, UNIGRAM)
        if model not in known:
            raise UnsupportedError(
                f"{self.path}: the tokenizer is of kind {model[:40]!r}; known are {known}"
            )
        return model

    def stripping(self, model: str, tokens: Sequence[str], types: bytes) -> frozenset[int]:
        """Return Phi-3's turn marks, as its tokenizer.json has them; GGUF does not record it."""
        if model != SENTENCE_PIECE or self.metadata.get("general.architecture") != "phi3":
            return frozenset()
        kinds = (TokenType.CONTROL, TokenType.USER_DEFINED)
        marks = (i for i, token in enumerate(tokens) if types[i] in kinds and "<|" in token)
        return frozenset(i for i in marks if tokens[i] != "<|endoftext|>")

    def text(self, key: str, default: str | None) -> str:
        value = self.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.fail(key, _expected("a string", value))
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fail(key, _expected("true or false", value))
        return value

    def token_id(self, key: str, tokens: Sequence[str]) -> int | None:
        """Return the id that the file gives to a special token, or else that which files of its
        kind usually have."""
        usual = _USUAL.get(str(self.get("model")), {}).get(key, len(tokens))
        value = self.get(key)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise self.fail(key, _expected("a token id", value))
        if value is not None and 0 <= value < len(tokens):
            return value
        if value is not None:
            self.note(key, f"is {value}, but there are {len(tokens)} tokens: it is left out")
        return usual if usual < len(tokens) else None

    def elements(self, key: str, length: int | None = None) -> list[object]:
        value = self.get(key)
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            raise self.fail(key, _expected("an array", value))
        if length is not None and len(value) < length:
            raise self.fail(key, f"has {len(value)} elements, but there are {length} tokens")
        return list(value[:length])

    def strings(self, key: str) -> list[str]:
        values = self.elements(key)
        strings = [value for value in values if isinstance(value, str)]
        if len(strings) != len(values):
            at = next(i for i, value in enumerate(values) if not isinstance(value, str))
            raise self.fail(f"{key}[{at}]", _expected("a string", values[at]))
        return strings

    def tokens(self) -> tuple[str, ...]:
        tokens = self.strings("tokens")
        if not tokens:
            raise self.fail("tokens", "is empty")
        first = ids_of(tokens)
        if len(first) != len(tokens):
            i = next(i for i, token in enumerate(tokens) if first[token] != i)
            others = len(tokens) - len(first) - 1
            more = f", and {others:,} more are such" if others else ""
            problem = f"is {tokens[i][:40]!r}, as token {first[tokens[i]]}{more}"
            self.note(f"tokens[{i}]", f"{problem}: text becomes the first of equal tokens")
        return tuple(tokens)

    def types(self, tokens: Sequence[str]) -> bytes:
        if self.get("token_type") is None:
            numbers = bytearray((TokenType.NORMAL.value,)) * len(tokens)
        else:
            given = self.elements("token_type", len(tokens))
            numbers = bytearray(self._type(i, value) for i, value in enumerate(given))
        for i, token in enumerate(tokens):
            if token in _NO_TEXT and numbers[i] in (TokenType.NORMAL, TokenType.UNUSED):
                numbers[i] = TokenType.CONTROL.value
                self.note(f"token_type[{i}]", f"is of {token!r}, which is read as a control token")
        return bytes(numbers)

    def _type(self, token_id: int, value: object) -> int:
        if type(value) is not int:
            raise self.fail(f"token_type[{token_id}]", _expected("a number from 0 to 6", value))
        return value if 0 <= value <= TokenType.BYTE else 0

    def scores(self, count: int) -> array[float]:
        if self.get("scores") is None:
            return array("d", [0.0]) * count
        numbers = array("d")
        for i, value in enumerate(self.elements("scores", count)):
            if type(value) is int and abs(value) <= _LARGEST_SCORE:
                value = float(value)
            if not isinstance(value, float) or math.isnan(value):
                raise self.fail(f"scores[{i}]", _expected("a number", value))
            numbers.append(value)
        return numbers

    def merges(self, tokens: frozenset[str]) -> tuple[tuple[str, str], ...]:
        pairs, others = [], list[str]()
        for merge in self.strings("merges"):
            cut = merge.find(" ", 1)
            left, right = merge[:cut], merge[cut + 1 :]
            if cut >= 0 and left in tokens and right in tokens and left + right in tokens:
                pairs.append((left, right))
            else:
                others.append(merge)
        if others:
            count = f"{len(others):,} of {len(pairs) + len(others):,} elements"
            problem = f"that are no two tokens which make one: {others[0][:40]!r}"
            self.note("merges", f"has {count} {problem}; these are left out")
        return tuple(pairs)


def ids_of(tokens: Sequence[str]) -> dict[str, int]:
    """Return ids by token: of equal ones the first."""
    return dict(zip(reversed(tokens), range(len(tokens) - 1, -1, -1), strict=True))


def _expected(what: str, value: object) -> str:
    if value is None:
        return f"is missing, expected {what}"
    return f"is {found(value)}, expected {what}"
