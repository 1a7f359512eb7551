"""Detects an answer that has begun to repeat itself without an end.

The decision depends on the tokens of the answer and their texts alone: it is the same with drafts
and without, on every executor, and for each seed. An answer loops where one of two things holds:

1. **A period.** Its last tokens are one sequence over and over. How many tokens that takes depends
   on what repeats: `Window` has a row for prose, for what is no prose (numbers, rules, cells of a
   table) and for code.
2. **Sentences that come back.** Of the last RECENT tokens of sentences, those of at least STALE
   belong to sentences that the answer had said REPEATS times before. A number at the beginning of a
   line, case and punctuation make no other sentence; other numbers and words do. Short sentences
   count for nothing, nor do rows of tables, nor what stands in fenced code.

So code, tables, lists of numbers, quotes, songs with a refrain and poems that grow by a line in
every stanza go on. What a person asks to be repeated does too, for some thirty short lines. The
work is linear in the length of the answer: a window is searched for a period once for each eighth
of its length.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Sequence

from msgspec import Struct


class Window(Struct, frozen=True):
    """The window of a loop: the last `tokens` with a period of at most `longest` tokens."""

    tokens: int
    longest: int

    @property
    def stride(self) -> int:
        """Return after how many tokens the window is searched again."""
        return self.tokens // 8


PROSE = (Window(256, 64), Window(512, 128))
OTHER = Window(768, 32)  # 24 times: a matrix of zeros of 16 rows has fewer
CODE = Window(2048, 128)  # a fenced block, or an answer that keeps to a grammar
MOST_KEPT = CODE.tokens
RECENT, STALE = 320, 256  # tokens
REPEATS = 4  # times before
SHORTEST = 16  # bytes of a sentence that counts, without punctuation
LONGEST = 400  # characters, at which a sentence ends in any case
_LETTERS = 3 / 4  # of prose, of the characters that are no space
_END = re.compile(r"[.!?…]+[\"'”’)\]*_]*\s+|[。！？]+|\n+")
_NUMBER = re.compile(r"\s*(?:[-*•>#]+\s*)*(?:\(?\d{1,4}[.):]\s*)?")
_WORD = re.compile(r"\w+")
_FENCES = ("```", "~~~")


def smallest_period(tokens: Sequence[int]) -> int:
    """Return the smallest p with tokens[i] == tokens[i + p] for all i, or their count if there is
    none smaller. It is found in linear time by the Knuth-Morris-Pratt prefix function."""
    borders, border = [0] * len(tokens), 0
    for at in range(1, len(tokens)):
        while border and tokens[at] != tokens[border]:
            border = borders[border - 1]
        border += tokens[at] == tokens[border]
        borders[at] = border
    return len(tokens) - border


def is_prose(text: str) -> bool:
    """Return True for words that are no row of a table: what is repeated with few letters may be
    meant so."""
    shown = [character for character in text if not character.isspace()]
    letters = sum(character.isalpha() for character in shown)
    return "|" not in text and letters >= _LETTERS * max(1, len(shown))


def normalized_sentence(sentence: str) -> str:
    """Return what two sentences that count as the same have in common: the words, without the
    number of a list; "" for one that is too short to count, or no prose."""
    number = _NUMBER.match(sentence)
    rest = sentence[number.end() if number else 0 :]
    words = " ".join(_WORD.findall(rest.casefold())) if is_prose(rest) else ""
    return words if len(words.encode("utf-8", "replace")) >= SHORTEST else ""


class RepetitionGuard:
    """Watches an answer's tokens, and decides at each whether the answer loops."""

    def __init__(self, *, keeps_to_grammar: bool = False) -> None:
        self._is_code = keeps_to_grammar
        self._count = 0
        self._tokens: deque[int] = deque(maxlen=MOST_KEPT)
        self._texts: deque[str] = deque(maxlen=MOST_KEPT)
        self._sentence = ""
        self._size = 0  # tokens of it
        self._line = ""  # how the line begins, as far as it tells a fence
        self._in_fence = False
        self._sentences: Counter[str] = Counter()
        self._recent: deque[tuple[int, bool]] = deque()  # sentences: their tokens, whether stale
        self._recent_tokens = self._stale_tokens = 0

    def feed(self, token: int, text: str) -> bool:
        """Return whether the answer loops with this token; `text` is what became whole with it."""
        self._count += 1
        self._tokens.append(token)
        self._texts.append(text)
        self._feed(text)
        return self._has_period() or self._stale_tokens >= STALE

    def _has_period(self) -> bool:
        if self._is_code or self._in_fence:
            return self._repeats(CODE)
        for window in PROSE:
            if period := self._period(window):
                texts = list(self._texts)[-period:]
                if is_prose("".join(texts)):
                    return True
        return self._repeats(OTHER) or self._repeats(CODE)

    def _repeats(self, window: Window) -> bool:
        return self._period(window) > 0

    def _period(self, window: Window) -> int:
        """Return the period of the window where it is due and short; else 0."""
        if self._count < window.tokens or self._count % window.stride:
            return 0
        period = smallest_period(list(self._tokens)[-window.tokens :])
        return period if period <= window.longest else 0

    def _feed(self, text: str) -> None:
        """Feed text and end its sentences; the last one may be unfinished."""
        self._sentence += text
        self._size += 1
        while (end := _END.search(self._sentence)) or len(self._sentence) > LONGEST:
            at = end.end() if end else LONGEST
            # A line's end may go on with the next token: it begins no sentence.
            sentence, self._sentence = self._sentence[:at], self._sentence[at:]
            self._end_sentence(sentence)
            self._size = 0

    def _end_sentence(self, sentence: str) -> None:
        self._line += sentence
        is_fence = self._line.lstrip().startswith(_FENCES)
        if sentence.endswith("\n"):
            self._line = ""
            self._in_fence ^= is_fence
        else:
            self._line = self._line[:8]
        if self._is_code or self._in_fence or is_fence:
            return
        words = normalized_sentence(sentence)
        if words:
            self._count_sentence(words)

    def _count_sentence(self, words: str) -> None:
        stale = self._sentences[words] >= REPEATS
        self._sentences[words] += 1
        self._recent.append((self._size, stale))
        self._recent_tokens += self._size
        self._stale_tokens += self._size * stale
        while self._recent_tokens - self._recent[0][0] >= RECENT:
            size, was_stale = self._recent.popleft()
            self._recent_tokens -= size
            self._stale_tokens -= size * was_stale


def repeats(tokens: Sequence[int], texts: Sequence[str], *, in_grammar: bool = False) -> int | None:
    """Return after how many tokens an answer loops; None if it does not."""
    guard = RepetitionGuard(keeps_to_grammar=in_grammar)
    for count, (token, text) in enumerate(zip(tokens, texts, strict=True), 1):
        if guard.feed(token, text):
            return count
    return None
