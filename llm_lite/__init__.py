"""Run a language model on your own machine and see inside it while it talks.

    import llm_lite

    with llm_lite.load() as model:
        for token in model.generate("Why is the sky blue?", temperature=0):
            print(token.text, end="")
        weights = model.attention("The cat sat on the mat.", 5, 2)  # float32 [n, n]

`load` returns a `Model`; docs/python.md tells all of it. What goes wrong is an `LlmLiteError`, with
one sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llm_lite.api.answer import Answer, Token
    from llm_lite.api.conversation import Conversation
    from llm_lite.api.elsewhere import ModelElsewhere, connect
    from llm_lite.api.encoder import Encoder
    from llm_lite.api.loading import load
    from llm_lite.api.model import Model
    from llm_lite.api.token_text import TokenText
    from llm_lite.api.translator import Translator
    from llm_lite.core.errors import LlmLiteError
    from llm_lite.core.messages.interventions import Interventions, Replace, Scale, Shift

__all__ = [
    "Answer",
    "Conversation",
    "Encoder",
    "Interventions",
    "LlmLiteError",
    "Model",
    "ModelElsewhere",
    "Replace",
    "Scale",
    "Shift",
    "Token",
    "TokenText",
    "Translator",
    "connect",
    "load",
]

_MODULES = {
    "Answer": "llm_lite.api.answer",
    "Conversation": "llm_lite.api.conversation",
    "Encoder": "llm_lite.api.encoder",
    "Interventions": "llm_lite.core.messages.interventions",
    "LlmLiteError": "llm_lite.core.errors",
    "Model": "llm_lite.api.model",
    "ModelElsewhere": "llm_lite.api.elsewhere",
    "Choose": "llm_lite.core.messages.interventions",
    "Replace": "llm_lite.core.messages.interventions",
    "Scale": "llm_lite.core.messages.interventions",
    "Shift": "llm_lite.core.messages.interventions",
    "Token": "llm_lite.api.answer",
    "TokenText": "llm_lite.api.token_text",
    "Translator": "llm_lite.api.translator",
    "connect": "llm_lite.api.elsewhere",
    "load": "llm_lite.api.loading",
}


def __getattr__(name: str) -> Any:
    """The engine is imported when it is first wanted: commands and the window begin without it."""
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'llm_lite' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
