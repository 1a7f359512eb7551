"""Detects an answer that has begun to repeat itself without an end.

The decision depends on the tokens of the answer, their texts and what was asked alone: it is the
same with drafts and without, on every executor, and for each seed. An answer loops where one of
four things holds:

1. **A period.** Its last tokens are one sequence over and over. How many tokens that takes depends
   on what repeats: `Window` has a row for prose, for what is no prose (numbers, rules, cells of a
   table) and for code.
2. **Sentences that come back**, with small changes too. A row of STALE says how many of the last
   tokens of sentences may have been said how often before. A sentence that was said so often is
   stale, and of another one the words in runs of RUN bytes that were: three quarters of these if
   it was never said as a whole. A sentence with a word or a number that the answer never had is
   new. Fenced code has no sentences; rows of tables and short sentences count where they are new
   only. A number at the beginning of a line, case and punctuation make no other sentence.
3. **A sentence that runs on** past LONGEST characters and has nothing new to say: it is counted by
   its parts between commas, and RUN_ON says how many of their last tokens this one sentence may
   have said how often before. A sentence that lists what the answer has said is none.
4. **A sentence that follows itself** and nothing else, a short one too, as often and for as many
   tokens as OTHER allows. It has no period where its lines have numbers.

So code, tables, lists of numbers, quotes, songs with a refrain and poems that grow by a line in
every stanza go on, and so does what a person asks to be repeated (`Requested`). The work is linear
in the count of tokens: of a token's text SEEN characters are looked at, and a window is searched
for a period once for each eighth of its length.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct

from llm_lite.core.generation.sentences import Sentence, Splitter, words_of, words_of_sentence


class Window(Struct, frozen=True):
    """The window of a loop: the last `tokens` with a period of at most `longest` tokens."""

    tokens: int
    longest: int

    @property
    def stride(self) -> int:
        """Return after how many tokens the window is searched again."""
        return self.tokens // 8

    @property
    def times(self) -> int:
        """Return how often the longest period is in it."""
        return self.tokens // self.longest


class Stale(Struct, frozen=True):
    """A loop of sentences: of the last `recent` tokens of sentences at least `stale` were said
    `repeats` times before."""

    recent: int
    stale: int
    repeats: int


PROSE = (Window(256, 51), Window(480, 160), Window(768, 256))
OTHER = Window(768, 32)  # 24 times: a matrix of zeros of 16 rows has fewer
CODE = Window(2048, 128)  # a fenced block, or an answer that keeps to a grammar
MOST_KEPT = CODE.tokens
STALE = (Stale(320, 256, 4), Stale(240, 228, 2))
RUN_ON = Stale(80, 72, 4)
NEW = 24  # tokens that a new sentence counts at least: a heading in front of what is said again
UNSAID = 3 / 4  # that is stale at most of a sentence that was never said as a whole
RUN = 32  # bytes of words, without the spaces: some eight words of English
SHORTEST = 16  # bytes of a sentence that counts, without punctuation
SEEN = 400  # characters of a token's text
ANY_NUMBER = 256  # how often a sentence may be said that a person asks for, without a number
ENDS = 4000  # characters at both ends of a long message, which say what is asked for
_SLACK = 5 / 4  # of the number of times that is asked for: models count badly
_LETTERS = 3 / 4  # of prose, of the characters that are no space
_DATA = re.compile(r"\A\s*'|[\"{}\[\]<>=`]")  # of a list of values, which is no sentence
_FENCES = ("```", "~~~")
# "Repeat", and what stands behind a number of times, in the languages of the window and others.
_TIMES = re.compile(
    r"\b(?:times|repeat\w*|mal|fois|veces|vezes|volte|раза?)\b|\d\s*x\b|번|반복|[回次遍]"
)


def smallest_period(tokens: Sequence[object]) -> int:
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


def runs_of(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of the shortest run of RUN bytes at each word."""
    sizes = [len(word.encode("utf-8", "replace")) for word in words]
    end = total = 0
    for begin, size in enumerate(sizes):
        while total < RUN and end < len(sizes):
            total += sizes[end]
            end += 1
        if total < RUN:
            return
        yield begin, end
        total -= size


class Requested:
    """Says what a person requests to be repeated: words of the message itself, or anything, so many
    times ("50 times")."""

    def __init__(self, message: str) -> None:
        if len(message) > 2 * ENDS:
            message = f"{message[:ENDS]} {message[-ENDS:]}"
        self._text = message.strip()
        words = words_of(message)
        self._words, self._count = f" {' '.join(words)} ", len(words)
        numbers = [int(n) for n in re.findall(r"(?<!\d)\d{1,5}(?!\d)", message)]
        self._number = max(numbers, default=0)
        self._says_times = bool(_TIMES.search(message.casefold()))

    def times(self, text: str, words: Sequence[str]) -> float:
        """Return how often `text` may be said as it was asked for, where it may begin anywhere; 0:
        it was not. A message that is said again as a whole asked for nothing."""
        number = _SLACK * self._number
        if self._has(text.strip(), words):
            return max(ANY_NUMBER, number)
        return number if self._says_times else 0

    def _has(self, text: str, words: Sequence[str]) -> bool:
        if not words:
            return bool(text) and text in self._text and text != self._text
        words = words[: smallest_period(words)]  # of "very very very" one word
        if len(words) + 2 > self._count:
            return False
        turned = [" ".join((*words[at:], *words[:at])) for at in range(len(words))]
        return any(f" {one} " in self._words for one in turned)


class _Recent:
    """The last sentences, with how many of their tokens are stale, by a row of STALE."""

    def __init__(self, row: Stale) -> None:
        self.row = row
        self._sentences: deque[tuple[int, int]] = deque()  # their tokens, the stale ones
        self._tokens = self._stale = 0

    def add(self, size: int, stale: int) -> None:
        self._sentences.append((size, stale))
        self._tokens += size
        self._stale += stale
        while self._tokens - self._sentences[0][0] >= self.row.recent:
            oldest, was_stale = self._sentences.popleft()
            self._tokens -= oldest
            self._stale -= was_stale

    @property
    def loops(self) -> bool:
        return self._stale >= self.row.stale


class _Earlier:
    """Sentences and runs of their words, with how often they were said."""

    def __init__(self) -> None:
        self.sentences: Counter[str] = Counter()
        self._runs: Counter[str] = Counter()

    def add(self, words: Sequence[str], joined: str) -> None:
        self.sentences[joined] += 1
        self._runs.update(" ".join(words[begin:end]) for begin, end in runs_of(words))

    def stale(self, words: Sequence[str], joined: str, repeats: int) -> float:
        """Return which part of a sentence was said so often before."""
        if self.sentences[joined] >= repeats:
            return 1.0
        stale = reached = 0
        for begin, end in runs_of(words):
            if self._runs[" ".join(words[begin:end])] >= repeats:
                stale += end - max(begin, reached)
                reached = end
        return (1.0 if self.sentences[joined] else UNSAID) * stale / len(words)


class _RunOn:
    """The parts of one sentence that runs on."""

    def __init__(self) -> None:
        self.earlier, self.recent = _Earlier(), _Recent(RUN_ON)


class _Succession:
    """A sentence that follows itself, with nothing but numbers of a list and rules between."""

    def __init__(self) -> None:
        self.times = 0
        self._joined = ""
        self._tokens = self._between = 0

    def add(self, joined: str, tokens: int) -> None:
        self._between += tokens
        if not joined:
            return
        if joined != self._joined:
            self._joined, self.times, self._tokens = joined, 0, 0
        self.times += 1
        self._tokens += self._between
        self._between = 0

    @property
    def loops(self) -> bool:
        return self._tokens >= OTHER.tokens and self.times >= OTHER.times


class RepetitionGuard:
    """Watches an answer's tokens, and decides at each whether the answer loops. `request` is the
    message that it answers."""

    def __init__(self, *, keeps_to_grammar: bool = False, request: str = "") -> None:
        self._is_code, self._requested = keeps_to_grammar, Requested(request)
        self._count = 0
        self._tokens: deque[int] = deque(maxlen=MOST_KEPT)
        self._texts: deque[str] = deque(maxlen=max(window.longest for window in (*PROSE, CODE)))
        self._splitter = Splitter()
        self._line = ""  # how the line begins, as far as it tells a fence
        self._in_fence = False
        self._words: set[str] = set()  # all that were said
        self._earlier = _Earlier()
        self._recent = [_Recent(row) for row in STALE]
        self._run_on = _RunOn()
        self._succession = _Succession()
        self._follows_itself = False  # the last sentence, as nobody asked for

    def feed(self, token: int, text: str) -> bool:
        """Return whether the answer loops with this token; `text` is what became whole with it."""
        self._count += 1
        self._tokens.append(token)
        self._texts.append(text[:SEEN])
        for sentence in self._splitter.feed(text[:SEEN]):
            self._end_sentence(sentence)
        recent = (*self._recent, self._run_on.recent)
        return self._has_period() or self._follows_itself or any(one.loops for one in recent)

    def _has_period(self) -> bool:
        if self._is_code or self._in_fence:
            return self._repeats(CODE)
        for window in PROSE:
            if (period := self._period(window)) and is_prose(text := self._last_text(period)):
                return not self._may_repeat(text, period)
        return self._repeats(OTHER) or self._repeats(CODE)

    def _repeats(self, window: Window) -> bool:
        period = self._period(window)
        return period > 0 and not self._may_repeat(self._last_text(period), period)

    def _period(self, window: Window) -> int:
        """Return the period of the window where it is due and short; else 0."""
        if self._count < window.tokens or self._count % window.stride:
            return 0
        first = len(self._tokens) - window.tokens
        period = smallest_period(list(islice(self._tokens, first, None)))
        return period if period <= window.longest else 0

    def _last_text(self, tokens: int) -> str:
        return "".join(islice(self._texts, len(self._texts) - tokens, None))

    def _may_repeat(self, text: str, period: int) -> bool:
        """Return whether a person asked for all that the answer has said of a period so far."""
        times = self._requested.times(text, words_of(text))
        return self._count < max(period * times, CODE.tokens * (times >= ANY_NUMBER))

    def _end_sentence(self, sentence: Sentence) -> None:
        self._line += sentence.text
        is_fence = self._line.lstrip().startswith(_FENCES)
        if sentence.text.endswith("\n"):
            self._line = ""
            self._in_fence ^= is_fence
        else:
            self._line = self._line[:8]
        if not (self._is_code or self._in_fence or is_fence):
            self._count_sentence(sentence)
        if sentence.is_part and sentence.is_last:
            self._run_on = _RunOn()

    def _count_sentence(self, sentence: Sentence) -> None:
        words = words_of_sentence(sentence.text)
        joined = " ".join(words)
        is_new = not self._words.issuperset(words)
        self._words.update(words)
        counts = len(joined.encode("utf-8", "replace")) >= SHORTEST and is_prose(sentence.text)
        counts = counts and not (sentence.is_part and _DATA.search(sentence.text))
        size = max(sentence.tokens, NEW) if is_new else sentence.tokens
        rated = [(self._earlier, recent) for recent in self._recent]
        if sentence.is_part:
            rated.append((self._run_on.earlier, self._run_on.recent))
        if counts or is_new:
            for earlier, recent in rated:
                stale = 0.0 if is_new else earlier.stale(words, joined, recent.row.repeats)
                if stale and self._earlier.sentences[joined] < self._times(sentence, words):
                    stale = 0.0
                recent.add(size, round(size * stale))
        if counts:
            self._earlier.add(words, joined)
            if sentence.is_part:
                self._run_on.earlier.add(words, joined)
        self._succession.add(joined, sentence.tokens)
        if joined:
            self._follows_itself = self._succession.loops and (
                self._succession.times >= self._times(sentence, words)
            )

    def _times(self, sentence: Sentence, words: Sequence[str]) -> float:
        return self._requested.times(sentence.text, words)


def repeats(
    tokens: Sequence[int], texts: Sequence[str], *, in_grammar: bool = False, request: str = ""
) -> int | None:
    """Return after how many tokens an answer loops; None if it does not."""
    guard = RepetitionGuard(keeps_to_grammar=in_grammar, request=request)
    for count, (token, text) in enumerate(zip(tokens, texts, strict=True), 1):
        if guard.feed(token, text):
            return count
    return None
