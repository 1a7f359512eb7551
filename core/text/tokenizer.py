"""Text to token ids and back, from the vocabulary in a GGUF header or a tokenizer.json."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Protocol

from llm_lite.core.errors import FileError, RequestError, UnsupportedError
from llm_lite.core.text.any_of import any_of
from llm_lite.core.text.pretokenizers import RULES, Rule
from llm_lite.core.text.sandbox.encoder import SandboxedEncoder
from llm_lite.core.text.sentencepiece import SPACE, PieceEncoder
from llm_lite.core.text.vocabulary import BYTE_LEVEL_BPE, TokenType, Vocabulary, read_vocabulary


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Tokens that end a turn in one family of models or another, when they are not ordinary text.
_END_TOKENS = _names(
    "<|im_end|> <|endoftext|> <|eot_id|> <|eom_id|> <|end_of_text|> <|end|> <|return|> "
    "<|EOT|> <|end_of_turn|> <end_of_turn> <|END_OF_TURN_TOKEN|> <｜end▁of▁sentence｜> </s> "
    "<eos> <EOT>"
)
_LONGEST_CHARACTER = 4  # bytes; one that the vocabulary lacks becomes a token or more
_SURROGATE = re.compile("[\ud800-\udfff]")
_LOOKS_LIKE_CONTROL = re.compile(r"<[|｜].*[|｜]>|</?(s|bos|eos|pad|unk)>|<(start|end)_of_turn>")


class _WordEncoder(Protocol):
    def encode_all(self, texts: Sequence[str]) -> list[list[int]]: ...


class Tokenizer:
    """Ids are those of the embedding's rows. Thread-safe: nothing changes after construction."""

    def __init__(self, vocabulary: Vocabulary, words: _WordEncoder | None = None) -> None:
        """`words` encodes what lies between marked tokens; made from the vocabulary if left out."""
        self._vocabulary = vocabulary
        self._tokens, self._types = vocabulary.tokens, vocabulary.types
        self._bytes: dict[int, bytes] = {}  # of tokens that were asked for
        self._is_bpe = vocabulary.model == BYTE_LEVEL_BPE
        control = [i for i in self._marked_ids() if self.is_special(i)]
        literal = [i for i in self._marked_ids() if not self.is_special(i)]
        self.control_tokens = frozenset(self._tokens[i] for i in control)
        self._id_of_marked = {self._tokens[i]: i for i in (*control, *literal)}
        self._any_marked = any_of([self._tokens[i] for i in (*control, *literal)])
        self._literal = any_of([self._tokens[i] for i in literal])
        make = _make_byte_level_encoder if self._is_bpe else _make_piece_encoder
        self._words: _WordEncoder = words or make(vocabulary, self.control_tokens)

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, object], path: Path) -> Tokenizer:
        """From the keys `tokenizer.ggml.*`.

        Errors: UnsupportedError for an unknown kind or pre-tokenizer, FileError naming `path` and
        the key for a malformed vocabulary.
        """
        return cls(read_vocabulary(metadata, path))

    @classmethod
    def from_huggingface(cls, folder: Path, rows: int) -> Tokenizer:
        """From a directory's tokenizer.json, for an embedding of `rows` rows.

        Errors: FileError naming file and field, UnsupportedError for an unknown kind.
        """
        from llm_lite.core.text.tokenizer_json import read_tokenizer

        return cls(*read_tokenizer(folder, rows))

    def load(self) -> None:
        """What the first text would wait for else. FileError where it can never encode."""
        if isinstance(self._words, _ByteLevelEncoder):
            self._words.load()

    @property
    def vocab_size(self) -> int:
        return len(self._tokens)

    @property
    def bos_id(self) -> int | None:
        return self._vocabulary.bos_id

    @property
    def adds_bos(self) -> bool:
        """Whether the file asks for a begin token before every text."""
        return self._vocabulary.add_bos and self.bos_id is not None

    @property
    def eos_id(self) -> int | None:
        return self._vocabulary.eos_id

    @cached_property
    def end_ids(self) -> frozenset[int]:
        """Ids after which the model has nothing more to say in this turn."""
        named = {self._id_of_marked[t] for t in _END_TOKENS if t in self._id_of_marked}
        eos = set() if self.eos_id is None else {self.eos_id}
        return frozenset(named | eos | self._vocabulary.marked_end_ids)

    @cached_property
    def longest_token_bytes(self) -> int:
        """The most bytes of text that one token stands for."""
        characters = max(map(len, self._tokens), default=0)
        long = (  # a character has at most four bytes: no other can have the most
            i for i, token in enumerate(self._tokens) if 4 * len(token) >= characters
        )
        return max(_LONGEST_CHARACTER, max(map(self._most_bytes, long), default=0))

    @cached_property
    def identity(self) -> str:
        """Hash of the vocabulary: equal for tokenizers that give every text the same ids."""
        return self._vocabulary.identity()

    def has_token(self, token: str) -> bool:
        """Whether `token` is one of the vocabulary's control or user-defined tokens."""
        return token in self._id_of_marked

    def token_text(self, token_id: int) -> str:
        """The token as the file spells it: 'Ġthe', '▁the', '<|im_end|>'."""
        return self._tokens[self._checked(token_id)]

    def is_special(self, token_id: int) -> bool:
        """Whether the token steers the model rather than stands for text."""
        kind = self._types[self._checked(token_id)]
        if kind == TokenType.USER_DEFINED:
            return _LOOKS_LIKE_CONTROL.fullmatch(self._tokens[token_id]) is not None
        return kind in (TokenType.CONTROL, TokenType.UNKNOWN)

    def encode(
        self, text: str, *, add_special: bool = False, parse_special: bool = True
    ) -> list[int]:
        """Ids of `text`; with add_special, begin and end tokens where the file asks for them.

        parse_special: '<|im_end|>' in the text becomes that control token; without it, the text
        is only text, as what a user typed must be.
        Errors: RequestError for a lone surrogate. Characters for which the vocabulary has no
        bytes are encoded as U+FFFD.
        """
        return self.encode_segments([(text, parse_special)], add_special=add_special)

    def encode_segments(
        self, segments: Sequence[tuple[str, bool]], *, add_special: bool = False
    ) -> list[int]:
        """Ids of the joined text of (text, trusted): control tokens count in trusted parts only.

        Words may reach across a border, so that the ids are those of the whole text.
        """
        text = "".join(part for part, _ in segments)
        _refuse_surrogates(text)
        ids: list[int] = []
        if add_special and self.adds_bos and self.bos_id is not None:
            ids.append(self.bos_id)
        marked = list(self._marked(text, segments))
        starts = [0, *(match.end() for match in marked)]
        ends = [*(match.start() for match in marked), len(text)]
        words = self._encode_words([text[a:b] for a, b in zip(starts, ends, strict=True)])
        ids += words[0]
        for match, following in zip(marked, words[1:], strict=True):
            ids.append(self._id_of_marked[match[0]])
            ids += following
        if add_special and self._vocabulary.add_eos and self.eos_id is not None:
            ids.append(self.eos_id)
        return ids

    def decode(self, ids: Iterable[int], *, skip_special: bool = False) -> str:
        """Text of `ids`; invalid UTF-8 becomes U+FFFD.

        Where encoding puts a space before the text (SentencePiece), decoding takes it away.
        """
        data = b"".join(
            self.token_bytes(i) for i in ids if not skip_special or not self.is_special(i)
        )
        if self._vocabulary.add_space_prefix:
            data = data.removeprefix(b" ")
        return data.decode(errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes a token stands for, perhaps a part of a character."""
        known = self._bytes.get(token_id)
        if known is None:
            known = self._bytes[token_id] = self._bytes_of(token_id)
        return known

    def _bytes_of(self, token_id: int) -> bytes:
        token, kind = self._tokens[self._checked(token_id)], self._types[token_id]
        if kind in (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED):
            return token.encode("utf-8", "surrogateescape")
        if self._is_bpe:
            return b"".join(_BYTE_OF.get(char) or char.encode() for char in token)
        if kind == TokenType.BYTE:
            return bytes([int(token[3:5], 16)])
        return token.replace(SPACE, " ").encode("utf-8", "surrogateescape")

    def _most_bytes(self, token_id: int) -> int:
        """Without making the bytes, as there are 262,144 tokens. Of byte-level BPE a character is
        a byte."""
        token, kind = self._tokens[token_id], self._types[token_id]
        if self._is_bpe and kind == TokenType.NORMAL:
            return len(token)
        return len(token) if token.isascii() else len(token.encode("utf-8", "surrogateescape"))

    def _checked(self, token_id: int) -> int:
        if not 0 <= token_id < len(self._tokens):
            raise RequestError(f"token id {token_id} is not in 0..{len(self._tokens) - 1}")
        return token_id

    def _marked_ids(self) -> Iterator[int]:
        kinds = (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED)
        return (i for i, kind in enumerate(self._types) if kind in kinds and self._tokens[i])

    def _marked(self, text: str, segments: Sequence[tuple[str, bool]]) -> Iterator[re.Match[str]]:
        """Control tokens inside trusted parts and user-defined tokens anywhere, in order."""
        for start, end, trusted in _joined_spans(segments):
            pattern = self._any_marked if trusted else self._literal
            yield from pattern.finditer(text, start, end) if pattern else ()

    def _encode_words(self, texts: Sequence[str]) -> list[list[int]]:
        # SentencePiece begins the text, and whatever follows a control token, with a space.
        lead = " " if self._vocabulary.add_space_prefix else ""
        return self._words.encode_all([lead + text if text else "" for text in texts])


class StreamDecoder:
    """Text of ids that arrive one at a time, in whole characters.

    Bytes that cannot become a character come out as U+FFFD as soon as that is certain.
    """

    def __init__(self, tokenizer: Tokenizer, *, skip_special: bool = False) -> None:
        self._tokenizer, self._skip_special = tokenizer, skip_special
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, *ids: int) -> str:
        """What `ids` complete; '' while a character is unfinished."""
        tokenizer = self._tokenizer
        shown = (i for i in ids if not self._skip_special or not tokenizer.is_special(i))
        return "".join(self._decoder.decode(tokenizer.token_bytes(i)) for i in shown)

    def flush(self) -> str:
        """What is left at the end: U+FFFD for an unfinished character. Starts over."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest


class _ByteLevelEncoder:
    """Byte-level BPE through the `tokenizers` library."""

    def __init__(self, vocabulary: Vocabulary, rule: Rule, control: frozenset[str]) -> None:
        self._vocabulary, self._rule, self._control = vocabulary, rule, control
        self._library = SandboxedEncoder(vocabulary.path, "load pairs", {}, self._parts)
        single = (token for token in vocabulary.tokens if len(token) == 1 and token not in control)
        self._known_bytes = b"".join(_BYTE_OF.get(char, b"") for char in single)

    def load(self) -> None:
        self._library.load()

    def _parts(self) -> bytes:
        """The vocabulary as `core.text.sandbox.tokenizers` loads it."""
        # What a user types must not become a control token by merging either.
        tokens, control = self._vocabulary.tokens, self._control
        merges = self._vocabulary.merges
        pairs = (p for p in merges if control.isdisjoint((*p, "".join(p))))
        parts = {
            "ids": {token: i for i, token in enumerate(tokens) if token not in control},
            "merges": list(chain.from_iterable(pairs)),
            "patterns": self._rule.patterns,
            "whole_words": self._rule.whole_words,
        }
        return json.dumps(parts).encode()

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return self._library.encode_all([self._spelled(text) for text in texts])

    def _spelled(self, text: str) -> str:
        """With U+FFFD for characters that the vocabulary has no bytes for."""
        if not text.encode().translate(None, self._known_bytes):
            return text
        return "".join(char if self._has_bytes(char) else "\ufffd" for char in text)

    def _has_bytes(self, char: str) -> bool:
        return not char.encode().translate(None, self._known_bytes)


def _make_byte_level_encoder(vocabulary: Vocabulary, control: frozenset[str]) -> _WordEncoder:
    rule = RULES.get(vocabulary.pre)
    if rule is None:
        raise UnsupportedError(
            f"{vocabulary.path}: unknown pre-tokenizer {vocabulary.pre[:40]!r} "
            f"(tokenizer.ggml.pre); known are {', '.join(sorted(RULES))}"
        )
    for i, token in enumerate(vocabulary.tokens):
        if _SURROGATE.search(token):
            raise FileError(vocabulary.path, f"tokenizer.ggml.tokens[{i}] is not valid UTF-8")
    return _ByteLevelEncoder(vocabulary, rule, control)


def _make_piece_encoder(vocabulary: Vocabulary, control: frozenset[str]) -> _WordEncoder:
    text_types = (TokenType.NORMAL, TokenType.USER_DEFINED, TokenType.UNUSED)
    text_kinds, byte = frozenset(kind.value for kind in text_types), TokenType.BYTE.value
    tokens = vocabulary.tokens
    ids = dict(zip(tokens, range(len(tokens)), strict=True))
    byte_ids = {}
    for i, kind in enumerate(vocabulary.types):
        if kind == byte:
            byte_ids[_byte_named(vocabulary, i)] = i
        if kind not in text_kinds or tokens[i] in control:
            del ids[tokens[i]]
    return PieceEncoder(ids, vocabulary.scores, byte_ids, vocabulary.unknown_id)


def _byte_named(vocabulary: Vocabulary, token_id: int) -> int:
    token = vocabulary.tokens[token_id]
    if not re.fullmatch("<0x[0-9A-F]{2}>", token):
        problem = f"tokenizer.ggml.tokens[{token_id}] is {token[:40]!r}, expected a byte as <0x0A>"
        raise FileError(vocabulary.path, problem)
    return int(token[3:5], 16)


def _joined_spans(segments: Sequence[tuple[str, bool]]) -> list[tuple[int, int, bool]]:
    """(start, end, trusted) with neighbours of the same trust as one."""
    spans: list[tuple[int, int, bool]] = []
    end = 0
    for part, trusted in segments:
        start, end = end, end + len(part)
        if spans and spans[-1][2] == trusted:
            start = spans.pop()[0]
        spans.append((start, end, trusted))
    return spans


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise RequestError(
            f"the text is not valid Unicode: a lone surrogate (U+{code:04X}) "
            f"at character {error.start}"
        ) from None


def _byte_of_char() -> dict[str, bytes]:
    """GPT-2's printable stand-ins: visible Latin-1 for itself, the rest from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    table = {chr(byte): bytes([byte]) for byte in visible}
    return table | {chr(0x100 + i): bytes([byte]) for i, byte in enumerate(hidden)}


_BYTE_OF = _byte_of_char()
