"""The library of prompts: named texts, and the places in them that a person fills."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

LONGEST_NAME = 60  # characters
LONGEST_PROMPT = 1 << 16
MOST_PLACES = 12  # to be filled in one prompt
_PLACE = re.compile(r"\{\{[ \t]*(\w[\w .-]{0,39}?)[ \t]*\}\}")


class SavedPrompt(Struct, frozen=True):
    name: str
    text: str

    @property
    def places(self) -> tuple[str, ...]:
        """Return the names between double braces, each once, in their order."""
        return tuple(dict.fromkeys(_PLACE.findall(self.text)))[:MOST_PLACES]

    @property
    def first_line(self) -> str:
        return next((line.strip() for line in self.text.splitlines() if line.strip()), "")


class PromptLibrary(Struct, frozen=True):
    prompts: tuple[SavedPrompt, ...] = ()  # in the order of their names
    read: bool = False  # they are those of the folder
    deleted: SavedPrompt | None = None  # the last one, which can be brought back

    def named(self, name: str) -> SavedPrompt | None:
        return next((prompt for prompt in self.prompts if prompt.name == name), None)

    def found(self, query: str) -> tuple[SavedPrompt, ...]:
        """Return prompts with all words of the query, those with them in their names first."""
        return _found(self.prompts, query)


@lru_cache(maxsize=4)
def _found(prompts: tuple[SavedPrompt, ...], query: str) -> tuple[SavedPrompt, ...]:
    """Search once for what is requested in every frame."""
    words = query.casefold().split()
    in_names, in_texts = [], []
    for prompt in prompts:
        name = prompt.name.casefold()
        if all(word in name for word in words):
            in_names.append(prompt)
        elif all(word in name or word in prompt.text.casefold() for word in words):
            in_texts.append(prompt)
    return (*in_names, *in_texts)


def filled(text: str, values: Mapping[str, str]) -> str:
    """Fill the places that have a value; others stay as they are."""
    return _PLACE.sub(lambda match: values.get(match[1], match[0]), text)
