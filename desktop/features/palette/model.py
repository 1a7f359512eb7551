"""A person searches and chooses in the command palette; the history returns what it finds, and
titles are matched with the query: which fit, how well, and where the letters stand.

Words of a query are looked for one by one, in any order. A word fits where it stands as a whole,
best at the beginning of a word of the title, or where its letters follow each other close together,
or where one letter is wrong, missing, too much or swapped with the next.

What is chosen is an action like any other; here is only noted that it was, to list it first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from llm_lite.core.records import replace
from llm_lite.desktop.features.history.state import LONGEST_QUERY, FoundRow
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import tr

LOOSE = 3  # letters that may lie between, for each letter of a word
LEAST_LOOSE = 2  # letters of a word that may be apart
LEAST_MISTYPED = 4  # letters of a word that may have one mistake


class SearchPalette(Action, frozen=True):
    """Find conversations; the program asks the history, on a thread of its own."""

    query: str


class PaletteAnswered(Action, frozen=True):
    query: str
    found: tuple[FoundRow, ...]


class NoteChoice(Action, frozen=True):
    key: str


def _search(action: SearchPalette, state: AppState, now: float) -> Result:
    palette = replace(state.palette, query=action.query[:LONGEST_QUERY])
    if not action.query.strip():
        palette = replace(palette, found=(), found_for="")
    return replace(state, palette=palette), ()


def _answered(action: PaletteAnswered, state: AppState, now: float) -> Result:
    palette = replace(state.palette, found=action.found, found_for=action.query)
    if action.query != state.palette.query:  # a later question is on its way
        return state, ()
    return replace(state, palette=palette), ()


def _note(action: NoteChoice, state: AppState, now: float) -> Result:
    palette = replace(state.palette, recent=state.palette.chose(action.key))
    return replace(state, palette=palette), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SearchPalette: _search,
    PaletteAnswered: _answered,
    NoteChoice: _note,
}


class Match(Struct, frozen=True):
    score: float  # the higher, the better
    at: tuple[int, ...] = ()  # places of letters in the title


def fold(text: str) -> str:
    """Write a text in small letters, as long as before, so that places stay the same."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)


def also_called(title: str, words: str) -> str:
    """Return words by which a title is found too. In another language the English title is one:
    documentation has it, and what is at hand may be a keyboard of Latin letters."""
    return words if tr(title) == title else f"{words} {fold(title)}"


def match(query: str, title: str, words: str = "") -> Match | None:
    """`query` is folded; `words` are others by which the title may be found, and are not marked."""
    folded, places, total = fold(title), set[int](), 0.0
    for word in query.split():
        found = _find(word, folded)
        if found is not None:
            total += found.score
            places.update(found.at)
        elif words and (hidden := _find(word, words)) is not None and hidden.score >= 60:
            total += hidden.score / 2
        else:
            return None
    return Match(total - len(title) / 50, tuple(sorted(places)))


def _find(word: str, title: str) -> Match | None:
    at = title.find(word)
    inside = at
    while at >= 0:
        if at == 0 or not title[at - 1].isalnum():
            whole = at + len(word) == len(title) or not title[at + len(word)].isalnum()
            return Match(100 - at / 10 + 10 * whole, tuple(range(at, at + len(word))))
        at = title.find(word, at + 1)
    if inside >= 0:
        return Match(60 - inside / 10, tuple(range(inside, inside + len(word))))
    found = [_scattered(word, title)] if len(word) >= LEAST_LOOSE else []
    found += [_mistyped(word, title)] if len(word) >= LEAST_MISTYPED else []
    return max((one for one in found if one), key=lambda one: one.score, default=None)


def _mistyped(word: str, title: str) -> Match | None:
    """Find a word of the title that begins like `word`, but for one mistake behind its first
    letter."""
    start = title.find(word[0])
    while start >= 0:
        if start == 0 or not title[start - 1].isalnum():
            length = _but_one(word, title[start : start + len(word) + 1])
            if length:
                return Match(20 - start / 10, tuple(range(start, start + length)))
        start = title.find(word[0], start + 1)
    return None


def _but_one(word: str, title: str) -> int:
    """Count the letters of the title that are meant, where at most one mistake was made; else 0."""
    pairs = zip(word, title, strict=False)
    at = next((at for at, (typed, meant) in enumerate(pairs) if typed != meant), len(title))
    rest, meant = word[at:], title[at:]
    swapped = rest[1:2] + rest[:1] + rest[2:]
    if meant[: len(rest)] in (swapped, meant[:1] + rest[1:]) and len(meant) >= len(rest):
        return len(word)
    if meant[1 : len(rest) + 1] == rest:  # one is missing
        return len(word) + 1
    return len(word) - 1 if meant[: len(rest) - 1] == rest[1:] else 0  # one too much


def _scattered(word: str, title: str) -> Match | None:
    """Find letters in their order, the first at the beginning of a word."""
    best: Match | None = None
    start = title.find(word[0])
    while start >= 0:
        if start == 0 or not title[start - 1].isalnum():
            places = _letters_in_order(word, title, start)
            if places is not None:
                between = places[-1] - places[0] + 1 - len(word)
                begins = sum(at == 0 or not title[at - 1].isalnum() for at in places)
                score = 30 - between + 4 * begins - start / 10
                fits = between <= LOOSE * len(word) or begins == len(word)
                if fits and (best is None or score > best.score):
                    best = Match(score, places)
        start = title.find(word[0], start + 1)
    return best


def _letters_in_order(word: str, title: str, start: int) -> tuple[int, ...] | None:
    """Find each letter at the beginning of the next word that has it there, else where it comes
    next."""
    places = [start]
    for letter in word[1:]:
        after = places[-1] + 1
        near = title.find(letter, after)
        if near < 0:
            return None
        space = title.find(" " + letter, places[-1])
        places.append(space + 1 if near != after and space >= 0 else near)
    return tuple(places)
