"""Run a language model on your own machine and see inside it while it talks.

    import llm_lite

    with llm_lite.load() as model:
        print(model.generate("Why is the sky blue?", temperature=0))
        maps = model.attention("The cat sat on the mat.")  # float32 [layers, heads, n, n]

`load` returns a `Model` with `generate`, `stream`, `logits`, `attention`, `tokenize`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llm_lite.model import Model, load

__all__ = ["Model", "load"]


def __getattr__(name: str) -> Any:
    """The engine is imported when it is first wanted: commands and the window begin without it."""
    if name in __all__:
        from llm_lite import model

        return getattr(model, name)
    raise AttributeError(f"module 'llm_lite' has no attribute {name!r}")
