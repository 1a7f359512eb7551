"""A request offers functions, and may demand that one of them is called.

A grammar enforces a call that is demanded: the answer can be nothing but the arguments of the
function, or, of several, an object that names one. Where a model's template knows no functions they
are described in a system message, and a call is an answer that is nothing but such an object.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol

from msgspec import Meta, Struct

from llm_lite.core.checked import CheckError
from llm_lite.core.messages import ChatMessage, ModelInfo, ToolSpec, ToolStyle
from llm_lite.core.plain_text import quote
from llm_lite.core.tools.declared import checked
from llm_lite.core.tools.json_values import JsonProblem
from llm_lite.server.openai.messages import NameText
from llm_lite.server.schema import about

MOST_TOOLS = 128
Description = Annotated[str, Meta(max_length=4000)]
Parameters = Annotated[dict[str, Any] | None, about("A JSON schema of an object.")]
Whether = Literal["none", "auto", "required"]


class FunctionName(Struct):
    name: NameText


class FunctionDeclared(Struct):
    name: NameText
    description: Description | None = None
    parameters: Parameters = None
    strict: Annotated[
        bool | None, about("Arguments keep to the schema where the call is demanded.")
    ] = None


class Tool(Struct):
    type: Literal["function"]
    function: FunctionDeclared


class ToolChosen(Struct):
    type: Literal["function"]
    function: FunctionName


Tools = Annotated[
    Annotated[list[Tool], Meta(max_length=MOST_TOOLS)] | None,
    about("Functions that the model may call."),
]
ToolChoice = Annotated[
    Whether | ToolChosen | None,
    about("Whether it calls: as it likes (auto), never, one of them, or this one."),
]
ParallelCalls = Annotated[bool, about("false: one call at most.")]
_FUNCTIONS = (
    "You can call functions. To call one, answer with nothing but a JSON object of this form: "
    '{{"name": "the function", "arguments": {{...}}}}. The functions:\n{functions}'
)


class ToolPlan(Struct, frozen=True):
    """`style` says how calls are marked in the answer, "" where none is looked for. The whole
    answer is the arguments of the function `forced`, where there is one. `schema` is what the
    answer keeps to, if anything."""

    specs: tuple[ToolSpec, ...] = ()
    style: ToolStyle = ""
    forced: str = ""
    schema: str = ""
    is_single: bool = False
    in_words: bool = False  # the model's template knows no functions

    @property
    def offered(self) -> tuple[ToolSpec, ...]:
        """Return the functions that the template is given."""
        return () if self.in_words else self.specs

    def spec(self, name: str) -> ToolSpec | None:
        return next((spec for spec in self.specs if spec.name == name), None)

    def with_functions(self, messages: tuple[ChatMessage, ...]) -> tuple[ChatMessage, ...]:
        """Return the conversation as the model gets it."""
        if not self.in_words:
            return messages
        functions = "\n".join(
            f"- {s.name}: {s.description} Arguments: {s.parameters}" for s in self.specs
        )
        words = _FUNCTIONS.format(functions=functions)
        if messages and messages[0].role == "system":
            content = f"{messages[0].content}\n\n{words}"
            return (ChatMessage("system", content), *messages[1:])
        return (ChatMessage("system", words), *messages)


class Declared(Protocol):
    """Chats and responses declare a function with these fields."""

    name: str
    description: str | None
    parameters: dict[str, Any] | None


def specs_of(given: Sequence[Declared]) -> tuple[ToolSpec, ...]:
    """Return the functions, whose declarations stand in the field `tools`; raise CheckError."""
    found: dict[str, ToolSpec] = {}
    for index, function in enumerate(given):
        where = f"tools[{index}]"
        try:
            spec = checked(function.name, function.description, function.parameters, where)
        except JsonProblem as problem:
            raise CheckError(where, str(problem).removeprefix(where).lstrip(", ")) from None
        if spec.name in found:
            raise CheckError(where, f"the name {spec.name!r} is there already")
        found[spec.name] = spec
    return tuple(found.values())


def plan_of(
    specs: tuple[ToolSpec, ...], choice: str | None, model: ModelInfo, *, parallel: bool
) -> ToolPlan:
    """Return how functions are offered and called. `choice` is none, auto, required, or = and
    the name of a function. Raises CheckError."""
    if not specs:
        if choice not in (None, "none", "auto"):
            raise CheckError("tool_choice", "demands a call, but there are no tools")
        return ToolPlan()
    if choice == "none":
        return ToolPlan()
    if not model.continues:
        raise CheckError("tools", f"{model.name} is an {model.kind}, which calls no functions")
    style = model.tool_style
    in_words = style in ("", "unknown")
    if choice in (None, "auto"):
        return ToolPlan(
            specs, "llama" if in_words else style, is_single=not parallel, in_words=in_words
        )
    name = specs[0].name if choice == "required" and len(specs) == 1 else (choice or "")[1:]
    if choice != "required" or len(specs) == 1:
        spec = next((spec for spec in specs if spec.name == name), None)
        if spec is None:
            raise CheckError("tool_choice", f"{quote(name)} is none of the tools")
        return ToolPlan(specs, "", name, spec.parameters, True, in_words)
    return ToolPlan(specs, "llama", "", _one_of(specs), True, in_words)


def _one_of(specs: tuple[ToolSpec, ...]) -> str:
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": s.name}, "arguments": json.loads(s.parameters)},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for s in specs
    ]
    return json.dumps({"anyOf": calls})


def choice_of(given: Whether | ToolChosen | None) -> str | None:
    """Return the choice as `plan_of` takes it."""
    return f"={given.function.name}" if isinstance(given, ToolChosen) else given
