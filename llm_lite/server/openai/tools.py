"""A request offers functions, and may demand that one of them is called.

A grammar enforces a call that is demanded: the answer can be nothing but the arguments of the
function, or, of several, an object that names one. Where a model's template knows no functions they
are described in a system message, and a call is an answer that is nothing but such an object.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, Protocol

from msgspec import Meta, Struct

from llm_lite.core.checked import CheckError
from llm_lite.core.messages import ChatMessage, ModelInfo, ToolSpec, ToolStyle
from llm_lite.core.plain_text import quote
from llm_lite.core.tools.declared import checked
from llm_lite.core.tools.json_values import JsonProblem
from llm_lite.server.openai.messages import NameText
from llm_lite.server.schema import Typed, about

Parameters = Annotated[dict[str, Any] | None, about("A JSON schema of an object.")]
Whether = Literal["none", "auto", "required"]


class FunctionName(Struct):
    name: NameText


class FunctionDeclared(Struct):
    name: NameText
    description: str | None = None
    parameters: Parameters = None
    strict: Annotated[
        bool | None, about("Arguments keep to the schema where the call is demanded.")
    ] = None


class Tool(Struct):
    function: FunctionDeclared
    type: Literal["function"] = "function"


class ToolList(Typed):
    kinds: ClassVar = {"function": Tool}


class AllowedFunction(Struct):
    type: Literal["function"]
    function: FunctionName


class AllowedTools(Struct):
    mode: Literal["auto", "required"]
    tools: Annotated[list[AllowedFunction], Meta(min_length=1)]


class ToolChosen(Struct):
    type: Literal["function", "allowed_tools"]
    function: Annotated[FunctionName | None, about("This one is called.")] = None
    allowed_tools: Annotated[
        AllowedTools | None, about("One of these is called (required), or may be (auto).")
    ] = None


Tools = Annotated[ToolList | None, about("Functions that the model may call.")]
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
    or_answer: bool = False  # an answer keeps to a form, or is a call

    @property
    def calls(self) -> ToolStyle:
        """Return how a call is marked that may stand in place of an answer of a form."""
        return "" if self.schema or self.forced or self.in_words else self.style

    def or_call(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of an answer that may be a call in its place, where calls are objects
        of JSON without a mark; else the schema itself, as `calls` tells of a mark."""
        if self.style != "llama" or self.schema or self.forced:
            return schema
        return _either([("answer", schema)], self.specs)

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


def specs_of(given: Iterable[tuple[int, Declared]]) -> tuple[ToolSpec, ...]:
    """Return the functions, whose declarations stand in these places of the field `tools`; raise
    CheckError."""
    found: dict[str, ToolSpec] = {}
    for index, function in given:
        where = f"tools[{index}]"
        try:
            spec = checked(function.name, function.description, function.parameters, where)
        except JsonProblem as problem:
            raise CheckError(where, str(problem).removeprefix(where).lstrip(", ")) from None
        if spec.name in found:
            raise CheckError(where, f"the name {spec.name!r} is there already")
        found[spec.name] = spec
    return tuple(found.values())


class CallChoice(Struct, frozen=True):
    """A choice says whether a call is wanted: none, auto, required, or = and the name of a
    function. Where `among` has names, only these functions may be called."""

    wanted: str | None = None
    among: tuple[str, ...] | None = None


def plan_of(
    specs: tuple[ToolSpec, ...], choice: CallChoice, model: ModelInfo, *, parallel: bool
) -> ToolPlan:
    """Return how functions are offered and called. Raises CheckError."""
    if choice.among is not None:
        known = {spec.name for spec in specs}
        unknown = next((name for name in choice.among if name not in known), None)
        if unknown is not None:
            raise CheckError("tool_choice", f"{quote(unknown)} is none of the tools")
        specs = tuple(spec for spec in specs if spec.name in choice.among)
    return _plan_of(specs, choice.wanted, model, parallel=parallel)


def _plan_of(
    specs: tuple[ToolSpec, ...], choice: str | None, model: ModelInfo, *, parallel: bool
) -> ToolPlan:
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
    return ToolPlan(specs, "llama", "", json.dumps(_either([], specs)), True, in_words)


def _either(
    answers: list[tuple[str, dict[str, Any]]], specs: tuple[ToolSpec, ...]
) -> dict[str, Any]:
    """Return the schema of an answer of one of these, by name, or of a call of a function. What
    schemas refer to within themselves, they find where they stand now."""
    parts = {name: _moved(schema, f"#/$defs/{name}") for name, schema in answers}
    ways: list[dict[str, Any]] = [{"$ref": f"#/$defs/{name}"} for name in parts]
    for number, spec in enumerate(specs):
        place = f"#/$defs/arguments_{number}"
        parts[f"arguments_{number}"] = _moved(json.loads(spec.parameters), place)
        ways.append(
            {
                "type": "object",
                "properties": {"name": {"const": spec.name}, "arguments": {"$ref": place}},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
        )
    return {"anyOf": ways, "$defs": parts}


def _moved(value: Any, place: str) -> Any:
    """Return a schema whose references lead to `place`, where it will stand."""
    if isinstance(value, list):
        return [_moved(one, place) for one in value]
    if not isinstance(value, dict):
        return value
    moved = {name: _moved(one, place) for name, one in value.items()}
    target = moved.get("$ref")
    if isinstance(target, str) and (target == "#" or target.startswith("#/")):
        moved["$ref"] = place + target[1:]
    return moved


def choice_of(given: Whether | ToolChosen | None) -> CallChoice:
    if not isinstance(given, ToolChosen):
        return CallChoice(given)
    if given.type == "function":
        if given.function is None:
            raise CheckError("tool_choice.function", "is missing: expected an object")
        return CallChoice(f"={given.function.name}")
    allowed = given.allowed_tools
    if allowed is None:
        raise CheckError("tool_choice.allowed_tools", "is missing: expected an object")
    return CallChoice(allowed.mode, tuple(one.function.name for one in allowed.tools))


def tools_left_out(tools: Typed | None) -> list[str]:
    """Return the types of tools that are none of functions, as names of what is ignored."""
    return [f"tools.{kind}" for kind in tools.left_out] if tools else []
