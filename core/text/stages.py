"""The stages of a text on its way to token ids, by a model's tokenizer or a tokenizer.json alone.

Ids are those of `Tokenizer.encode_segments`, or of the library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from llm_lite.core.errors import RequestError
from llm_lite.core.files.json_text import MAX_TOKENIZER_BYTES, read_bytes
from llm_lite.core.messages.inspecting.tokenizing import (
    MOST_CHARACTERS,
    MOST_STEPPED,
    Edge,
    Lattice,
    LongestMatch,
    LongestMatches,
    Merge,
    MergeSteps,
    Steps,
    TokenizedText,
    TokenPiece,
    Word,
)
from llm_lite.core.plain_text import one_line
from llm_lite.core.text.byte_characters import BYTE_OF, named_byte
from llm_lite.core.text.sandbox.encoder import SandboxedEncoder
from llm_lite.core.text.tokenizer import Tokenizer

MOST_COUNTED = 1 << 20  # characters of a text whose tokens are counted
_MOST_IDS = 1 << 22
Segment = tuple[str, bool]  # text, whether control tokens count in it
BytesOf = Callable[[str, int], bytes]


def tokenized(
    tokenizer: Tokenizer, name: str, segments: Sequence[Segment], *, around: bool = True
) -> TokenizedText:
    """Return the stages of the joined text, as `Tokenizer.encode_segments` encodes it; `around`:
    with the tokens that the file puts before and after every text.

    Errors: RequestError for a text that is too long or has a lone surrogate, FileError where the
    tokenizer fails.
    """
    whole = "".join(text for text, _ in segments)
    _refuse_long(whole)
    ids = tokenizer.encode_segments(segments, add_special=around)
    shown = _beginning(segments, MOST_CHARACTERS)
    parts = list(tokenizer.parts(shown))
    answer = tokenizer.trace_parts([part for part in parts if part.id is None], MOST_STEPPED)
    traced = iter(answer["traced"])
    words, normalized = list[Word](), ""
    for part in parts:
        start, text, marked = part[:3]
        if marked is not None:
            end = start + len(text)
            piece = TokenPiece(text, marked, start, end, tokenizer.token_bytes(marked))
            control = tokenizer.is_special(marked)
            words.append(Word(start, end, text, (piece,), None, True, control))
            normalized += text
            continue
        traced_text = next(traced)
        lead = len(tokenizer.given(part)) - len(text)
        of = partial(_word, start - lead, start, lambda _, number: tokenizer.token_bytes(number))
        words += map(of, traced_text["words"])
        normalized += traced_text["normalized"]
    before, after = tokenizer.around if around else ((), ())
    end = len("".join(text for text, _ in shown))
    return TokenizedText(
        name,
        answer["kind"],
        whole[:MOST_CHARACTERS],
        len(whole),
        normalized[: 2 * MOST_CHARACTERS],
        tuple(answer["normalizers"]),
        tuple(words),
        len(ids),
        tokenizer.vocab_size,
        answer["of_bytes"],
        tuple(_added(tokenizer, number, 0) for number in before),
        tuple(_added(tokenizer, number, end) for number in after),
        answer["own_words"],
        _typed(shown),
    )


class TokenizerFile:
    """A tokenizer.json without its model."""

    def __init__(self, path: Path) -> None:
        """Load a tokenizer.json. FileError if it is no tokenizer."""
        self.path = path
        request = {"most_tokens": _MOST_IDS, "most_ids": 0}
        data = partial(read_bytes, path, MAX_TOKENIZER_BYTES)
        self._library = SandboxedEncoder(path, "load tokenizer", request, data)
        about = self._library.load()
        self._vocabulary = int(about["ids"])
        self._added = {number: text for number, text, *_ in about["added"]}
        self._of_bytes = '"ByteLevel"' in about["decoder"]

    @property
    def name(self) -> str:
        return one_line(self.path.parent.name or self.path.name)

    def tokenized(self, text: str, *, control: bool = True) -> TokenizedText:
        """Return the stages as `tokenized` above; `control`: names of control tokens in the text
        count as these."""
        _refuse_long(text)
        shown = text[:MOST_CHARACTERS]
        answer = self._library.trace_all([shown], stepped=MOST_STEPPED, control=control)
        traced_text = answer["traced"][0]
        tokens = traced_text["tokens"] if shown == text else self.count(text)
        words = [_word(0, 0, self._bytes, word) for word in traced_text["words"]]
        before, after = (self._added_pieces(named, at) for named, at in _at_ends(answer, shown))
        return TokenizedText(
            self.name,
            answer["kind"],
            shown,
            len(text),
            traced_text["normalized"][: 2 * MOST_CHARACTERS],
            tuple(answer["normalizers"]),
            tuple(words),
            tokens + len(before) + len(after),
            self._vocabulary,
            answer["of_bytes"],
            before,
            after,
            answer["own_words"],
        )

    def count(self, text: str) -> int:
        """Count the tokens of a text, without those around it."""
        return len(self._library.encode_all([text])[0])

    def _added_pieces(self, named: Sequence[tuple[str, int]], at: int) -> tuple[TokenPiece, ...]:
        return tuple(TokenPiece(token, i, at, at, self._bytes(token, i)) for token, i in named)

    def _bytes(self, token: str, number: int) -> bytes:
        if number in self._added:
            return self._added[number].encode()
        if self._of_bytes:
            return b"".join(BYTE_OF.get(char) or char.encode() for char in token)
        if (byte := named_byte(token)) is not None:
            return bytes([byte])
        return token.replace("▁", " ").encode()


def _at_ends(answer: Mapping[str, Any], text: str) -> Iterator[tuple[Any, int]]:
    """Yield what the file puts around a text, and where."""
    yield from zip(answer["around"], (0, len(text)), strict=True)


def _refuse_long(text: str) -> None:
    if len(text) > MOST_COUNTED:
        raise RequestError(
            f"the text has {len(text):,} characters, at most {MOST_COUNTED:,} are cut"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code, at = ord(text[error.start]), error.start
        problem = f"a lone surrogate (U+{code:04X}) at character {at}"
        raise RequestError(f"the text is not valid Unicode: {problem}") from None


def _beginning(segments: Sequence[Segment], most: int) -> list[Segment]:
    shown = []
    for text, trusted in segments:
        shown += [(text[:most], trusted)] if most > 0 else []
        most -= len(text)
    return shown


def _typed(segments: Sequence[Segment]) -> tuple[tuple[int, int], ...]:
    """Return spans of what is not trusted, if something is."""
    spans, at = [], 0
    for text, trusted in segments:
        spans += [] if trusted or not text else [(at, at + len(text))]
        at += len(text)
    return tuple(spans) if any(trusted for _, trusted in segments) else ()


def _added(tokenizer: Tokenizer, number: int, at: int) -> TokenPiece:
    return TokenPiece(tokenizer.token_text(number), number, at, at, tokenizer.token_bytes(number))


def _word(shift: int, least: int, bytes_of: BytesOf, raw: Mapping[str, Any]) -> Word:
    """Return a word that the sandbox described, its spans moved; nothing begins before character
    `least`."""

    def moved(at: int) -> int:
        return max(least, at + shift)

    pieces = tuple(
        TokenPiece(token, int(number), moved(start), moved(end), bytes_of(token, number))
        for token, number, start, end in raw["pieces"]
    )
    start, end = raw["span"]
    steps = _STEPS[raw["kind"]](raw["steps"]) if "kind" in raw else None
    marked = bool(raw.get("marked"))
    return Word(moved(start), moved(end), raw["spelled"], pieces, steps, marked)


def _merges(raw: Mapping[str, Any]) -> Steps:
    merges = tuple(Merge(**merge) for merge in raw["merges"])
    ranks = tuple(raw["ranks"])
    return MergeSteps(tuple(raw["symbols"]), ranks, merges, raw["scored"], raw["whole"])


def _lattice(raw: Mapping[str, Any]) -> Steps:
    edges = tuple(Edge(**edge) for edge in raw["edges"])
    return Lattice(edges, tuple(raw["best"]), tuple(raw["totals"]))


def _matches(raw: Mapping[str, Any]) -> Steps:
    matches = tuple(LongestMatch(**match) for match in raw["matches"])
    return LongestMatches(matches, raw["prefix"], raw["too_long"], raw["characters"])


_STEPS: Mapping[str, Callable[[Mapping[str, Any]], Steps]] = {
    "MergeSteps": _merges,
    "Lattice": _lattice,
    "LongestMatches": _matches,
}
