"""The words of the window in the language that is in use; English stands in the code.

`tr("Save")` where text is drawn or a notice is made. Text with values in it is a format string, so
that a translation can put them in another order: `tr("{used} of {whole}").format(used=1, whole=2)`.
A constant of a module is made before a language is chosen: `mark("Save")` there, and `tr(CONSTANT)`
where it is drawn. What comes from outside (names of models, text of files and of a
conversation) is never translated.
"""

from __future__ import annotations

import gettext
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeVar

_catalogue = gettext.NullTranslations()
_number = 0
T = TypeVar("T", bound=str)


def use(catalogue: gettext.NullTranslations) -> None:
    """Use `catalogue` for all texts from the next frame on."""
    global _catalogue, _number
    _catalogue, _number = catalogue, _number + 1
    tr.cache_clear()


def number() -> int:
    """Return a number that changes with the language: what is cached between frames with texts in
    it depends on this."""
    return _number


def language() -> str:
    """Return the code of the language in use: "en", "ko"."""
    return _catalogue.info().get("language", "en")


@lru_cache(maxsize=4096)  # there are hundreds a frame
def tr(text: str) -> str:
    """Translate `text` into the language in use; it stays as it is without a translation."""
    return _catalogue.gettext(text) if text else ""  # gettext: the catalogue's head


def trn(one: str, many: str, count: int) -> str:
    """Return the form that `count` takes: `trn("{n} token", "{n} tokens", n).format(n=n)`."""
    return _catalogue.ngettext(one, many, count)


def tr_labels(options: Iterable[tuple[T, str]]) -> list[tuple[T, str]]:
    """Translate the marked labels of choices; the values stay."""
    return [(value, tr(label)) for value, label in options]


def mark(text: str) -> str:
    """Mark a text that is translated where it is drawn; it is returned unchanged."""
    return text
