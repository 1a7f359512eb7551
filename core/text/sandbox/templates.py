"""In the sandbox: chat templates, as transformers renders them.

What a template may reach is Jinja's own sandbox; how long it runs and how much it takes are the
process's limits.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

_COMPILED = 8  # templates that are kept
# What transformers gives to templates where there is none of it: some ask whether it is none.
_ABSENT: Mapping[str, None] = {"tools": None, "documents": None}


class RefusalError(jinja2.TemplateError):
    """The template itself called raise_exception."""


class _GenerationTag(Extension):
    """A tag of Jinja: {% generation %} marks answers for training; rendering takes its body as
    it is."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Templates:
    """Compiles and renders; keeps the last few compiled ones."""

    def __init__(self) -> None:
        self._environment = ImmutableSandboxedEnvironment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _GenerationTag],
        )
        self._environment.filters["tojson"] = _to_json
        self._environment.globals |= {
            "raise_exception": _raise_exception,
            "strftime_now": _strftime_now,
        }
        self._compiled: OrderedDict[str, jinja2.Template] = OrderedDict()

    def compile(self, source: str) -> jinja2.Template:
        template = self._compiled.pop(source, None) or self._environment.from_string(source)
        self._compiled[source] = template
        if len(self._compiled) > _COMPILED:
            self._compiled.popitem(last=False)
        return template

    def render(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return {"text"}, or {"refused"} with the template's own words, or {"failed"} with a
        sentence."""
        given = {key: request[key] for key in ("messages", "add_generation_prompt")}
        try:
            template = self.compile(request["source"])
            try:
                text = template.render({**_ABSENT, **given, **request["variables"]})
            except TypeError:  # it takes them for lists, as other programs leave them out
                text = template.render(**given, **request["variables"])
        except RefusalError as refusal:
            return {"refused": str(refusal)}
        except Exception as error:  # foreign code: whatever it raises is its own fault
            return {"failed": _sentence(error)}
        if len(text) > request["most_chars"]:
            return {"failed": f"it makes a text of more than {request['most_chars']} characters"}
        return {"text": text}

    def check(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return {"variables"} with the names that the template reads and may not have set, or
        {"failed"} with a sentence that names the line of the fault."""
        try:
            self.compile(request["source"])
            read = meta.find_undeclared_variables(self._environment.parse(request["source"]))
        except Exception as error:  # SyntaxError, RecursionError, ...
            return {"failed": _sentence(error)}
        return {"variables": sorted(read)}


def _sentence(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "it wants more memory than a template may have"
    line = getattr(error, "lineno", None)
    text = str(error).strip().split("\n")[0][:300] or type(error).__name__
    return f"line {line}: {text}" if line else text


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: Sequence[str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=None if separators is None else (separators[0], separators[1]),
        sort_keys=sort_keys,
    )


def _raise_exception(message: object) -> None:
    raise RefusalError(message[:500] if isinstance(message, str) else "it gives no reason")


def _strftime_now(form: str) -> str:
    if len(form) > 100 or not re.fullmatch(r"(?:[^%]|%-?[A-Za-z%])*", form, re.DOTALL):
        raise jinja2.TemplateError(f"it asks for the date as {form[:40]!r}")
    return datetime.now().strftime(form)
