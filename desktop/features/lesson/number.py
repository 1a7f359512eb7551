"""A number that the lesson shows: its name, its value, and how it is written."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from llm_lite.core.messages.inspecting.lesson import VectorPart
from llm_lite.desktop.language.units import size

Name = tuple[str | int, ...]
WRITTEN = 8  # first values of a vector that are written out
LISTED = 10  # tokens that may follow


class Number(Struct, frozen=True):
    name: Name
    value: float
    form: str = "{:+.3f}"

    @property
    def shown(self) -> str:
        """As it stands on the screen: with a real minus sign, and without one before zero."""
        if self.form == "size":
            return size(int(self.value))
        text = self.form.format(self.value)
        if not text.strip("+-0.%°"):
            text = text.replace("-", "+")
        return text.replace("-", "−")


Found = Iterator[Number]


def vector_numbers(name: str, vector: VectorPart, count: int = WRITTEN) -> Found:
    for index, value in enumerate(vector.values[:count]):
        yield Number((name, index), value)
    yield Number((name, "rms"), vector.rms, "{:.3f}")


def share_number(name: Name, value: float) -> Number:
    return Number(name, 100 * value, "{:.1f}%")
