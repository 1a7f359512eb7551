"""Values of a chat template's variables that are given on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import ModelInfo
from llm_lite.core.messages.answers import EFFORT
from llm_lite.core.plain_text import quote
from llm_lite.core.text.chat_template import check_read
from llm_lite.core.tools.json_values import JsonProblem, read_json


def values_of(arguments: argparse.Namespace, model: ModelInfo) -> dict[str, Any]:
    """Return the values by name. RequestError for one that the template of a model here does not
    read; a server names what it ignores."""
    values: dict[str, Any] = {}
    for given in arguments.template_value or ():
        name, mark, text = given.partition("=")
        if not mark or not name.isidentifier():
            raise RequestError(f"--template-value: expected NAME=VALUE, found {quote(given)}")
        try:
            values[name] = read_json(text)
        except JsonProblem:  # no JSON: a text
            values[name] = text
    if arguments.effort is not None:
        values[EFFORT] = arguments.effort
    if not arguments.connect:
        check_read(model.template_variables, values)
    return values
