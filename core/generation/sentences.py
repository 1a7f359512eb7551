"""Splits an answer into sentences and these into words, token by token."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

from msgspec import Struct

LONGEST = 400  # characters, from which a sentence is counted by its parts
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]*_]*+\s+|[。！？]+|\n+")
_PART_END = re.compile(rf"[,;:][^\S\n]+|[、，；：]+|(?P<end>{_END.pattern})")
_LAST_SPACE = re.compile(r".*\s", re.DOTALL)
_NUMBER = re.compile(r"\s*(?:[-*•>#]+\s*)*(?:\(?\d{1,4}[.):]\s*)?")
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")


def words_of(text: str) -> list[str]:
    """Return the words of a text, without case; Chinese and Japanese characters by themselves."""
    return _WORD.findall(text.casefold())


def words_of_sentence(sentence: str) -> list[str]:
    """Return the words that two sentences have in common that count as the same, without the number
    of a list."""
    number = _NUMBER.match(sentence)
    return words_of(sentence[number.end() if number else 0 :])


class Sentence(Struct, frozen=True):
    """A sentence, or a part of one that runs on; `tokens` begin in it."""

    text: str
    tokens: int
    is_part: bool = False
    is_last: bool = True  # of its parts


class Splitter:
    """Splits an answer into sentences."""

    def __init__(self) -> None:
        self.text = ""  # of the sentence that is not finished
        self._runs_on = False  # it has been longer than LONGEST
        self._before = 0  # characters
        self._begins: deque[int] = deque()  # of its tokens, in characters of the answer

    def feed(self, text: str) -> Iterator[Sentence]:
        """Yield what ends with a token's text."""
        self._begins.append(self._before + len(self.text))
        self.text += text
        while True:
            if end := (_PART_END if self._runs_on else _END).search(self.text):
                # A line's end may go on with the next token: it begins no sentence.
                yield self._cut(end.end(), is_last=not self._runs_on or end["end"] is not None)
            elif len(self.text) <= LONGEST:
                return
            elif self._runs_on:
                yield self._cut(_last_space(self.text), is_last=False)
            else:
                self._runs_on = True

    def _cut(self, at: int, *, is_last: bool) -> Sentence:
        text, self.text = self.text[:at], self.text[at:]
        self._before += at
        tokens = 0
        while self._begins and self._begins[0] < self._before:
            self._begins.popleft()
            tokens += 1
        is_part, self._runs_on = self._runs_on, self._runs_on and not is_last
        return Sentence(text, tokens, is_part, is_last)


def _last_space(sentence: str) -> int:
    """Return where a sentence of more than LONGEST characters ends: between words, if it can."""
    space = _LAST_SPACE.match(sentence, 0, LONGEST)
    return space.end() if space else LONGEST
