"""The names that Hugging Face's `transformers` has for the places of a plan."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class ModuleNames(Struct, frozen=True):
    """The modules of a model in `transformers`.

    modules: by the name of a module, what makes its output: the first of these that a plan has,
    each the name of a weight, for the op that multiplies or adds it; the label of an op; or
    "layers.3", for the end of that layer. differ: ends of labels of ops that make what
    `transformers` has in another order or scale, so that no name of others fits.
    """

    modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    differ: frozenset[str] = frozenset()
