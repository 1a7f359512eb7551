"""Answers to questions of core/questions/table.py without a model: made of the types of their
fields, so that a question which is added is answered, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from llm_lite.core.messages import StepRequest
from llm_lite.core.questions.table import BY_REQUEST

NUMBER = 0.25


def scripted(request: StepRequest, number: float = NUMBER, word: str = "scripted") -> Any:
    """An answer in which every number is `number`, or 0 where it is whole, and each text `word`."""
    kind = BY_REQUEST[type(request)].answer
    known = {name: getattr(request, name) for name in request.__struct_fields__}
    hints = get_type_hints(kind)
    return kind(
        **{
            name: known.get(name, _value(hints[name], number, word))
            for name in kind.__struct_fields__
        }
    )


def _value(kind: Any, number: float, word: str) -> Any:
    origin, inner = get_origin(kind), get_args(kind)

    def value(part: Any) -> Any:
        return _value(part, number, word)

    if origin is np.ndarray:
        return np.full((2, 3), number, get_args(inner[1])[0])
    if origin is Mapping:
        return {"a": value(inner[1]), "b": value(inner[1])}
    if origin is tuple:
        return (value(inner[0]),) * (2 if inner[-1] is ... else 1)
    if origin is Literal:
        return inner[0]
    return {int: 0, float: number, str: word, bool: False, bytes: b""}[kind]
