"""A Jinja environment for templates nobody has read: no attributes to escape by, and bounds.

A chat template comes with the model file and runs on the user's machine. Jinja's sandbox keeps it
from Python's internals but not from `'a' * 10**10` or endless loops. Here every loop turn, call,
filter and operator counts against a deadline; every value they make has a bounded size; and only
filters and methods whose work is bounded by the size of their arguments exist.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial, wraps
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

MAX_ELEMENTS = 100_000  # of nested lists and dicts together
MAX_RANGE = 10_000
MAX_INTEGER_BITS = 256
MAX_TOTAL_ELEMENTS = 5_000_000  # of all values made in one rendering
TOTAL_CHARS_FACTOR = 50  # characters of all values together, in units of the largest one's


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FILTERS = _names(
    "abs capitalize count d default dictsort e escape first float groupby indent int items "
    "join last length list lower map max min reject rejectattr replace reverse round safe "
    "select selectattr sort string title tojson trim unique upper"
)
_STRING_METHODS = _names(
    "capitalize count endswith find index isalnum isalpha isascii isdecimal isdigit islower "
    "isnumeric isspace istitle isupper join lower lstrip partition removeprefix removesuffix "
    "replace rfind rindex rpartition rsplit rstrip split splitlines startswith strip swapcase "
    "title upper"
)
_METHODS: dict[type, frozenset[str]] = {
    str: _STRING_METHODS,
    list: frozenset({"count", "index"}),
    tuple: frozenset({"count", "index"}),
    dict: frozenset({"get", "items", "keys", "values"}),
    int: frozenset(),
    float: frozenset(),
}


class TemplateLimitError(jinja2.TemplateError):
    """The template wants more time or space than a chat template may have."""


class Refusal(jinja2.TemplateError):
    """The template itself called raise_exception."""


class Budget:
    """What one rendering may use: seconds of wall time, characters in any one value."""

    def __init__(self, seconds: float, max_chars: int) -> None:
        self.seconds, self.max_chars = seconds, max_chars
        self._deadline = time.monotonic() + seconds
        self._total_chars = self._total_elements = 0

    def tick(self) -> None:
        if time.monotonic() > self._deadline:
            raise TemplateLimitError(f"it runs for more than {self.seconds:g} s")

    def check_chars(self, count: int) -> None:
        if count > self.max_chars:
            raise TemplateLimitError(f"it makes a text of more than {self.max_chars} characters")

    def check(self, value: Any) -> Any:
        """`value`, if it and all that it holds are small enough to print and compare."""
        self.tick()
        if isinstance(value, str):
            self.check_chars(len(value))
            self._charge(1, len(value))
        elif isinstance(value, list | tuple | dict):
            self._check_elements(value)
        elif type(value) is int and value.bit_length() > MAX_INTEGER_BITS:
            raise TemplateLimitError("it makes a very large number")
        return value

    def _check_elements(self, value: Any) -> None:
        waiting, elements, chars = [value], 0, 0
        while waiting:
            item = waiting.pop()
            elements += 1
            if isinstance(item, str):
                chars += len(item)
            elif isinstance(item, dict):
                waiting += [*item.keys(), *item.values()]
            elif isinstance(item, list | tuple):
                waiting += item
            if elements + len(waiting) > MAX_ELEMENTS:
                raise TemplateLimitError(f"it makes a list of more than {MAX_ELEMENTS} elements")
        self.check_chars(chars)
        self._charge(elements, chars)

    def _charge(self, elements: int, chars: int) -> None:
        """Lazy filters make values that are only later held together: so their sum counts."""
        self._total_elements += elements
        self._total_chars += chars
        if (
            self._total_elements > MAX_TOTAL_ELEMENTS
            or self._total_chars > TOTAL_CHARS_FACTOR * self.max_chars
        ):
            raise TemplateLimitError("it makes too many values")


class _Namespace(Namespace):
    """namespace(), printed without what it holds: else a few lines print an exponential text."""

    def __repr__(self) -> str:
        return "<namespace>"


class _Generation(Extension):
    """{% generation %} marks answers for training; rendering takes its body as it is."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Set `budget` before compiling or rendering; one thread at a time."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _Generation],
        )
        self.budget = Budget(1.0, 100_000)
        own: dict[str, Callable[..., Any]] = {
            "join": self._join,
            "replace": self._replace,
            "indent": self._indent,
        }
        own["tojson"] = self._tojson
        kept: dict[str, Any] = {name: own.get(name, self.filters[name]) for name in _FILTERS}
        self.filters = {name: self._bounded(function) for name, function in kept.items()}
        self.filters |= {"$concat": self._concat, "$check": self._check, "$tick": self._tick}
        tests: dict[str, Any] = self.tests
        self.tests = {name: self._bounded(function) for name, function in tests.items()}
        self.globals = {"namespace": _Namespace, "range": self._range, "dict": dict}
        self.globals |= {"raise_exception": _refuse, "strftime_now": _strftime_now}
        self.concat = self._concat  # type: ignore[method-assign]

    # What Jinja calls.

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        _instrument(template)
        return template

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        for kind, names in _METHODS.items():
            if isinstance(obj, kind):
                return attr in names
        return super().is_safe_attribute(obj, attr, value)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.budget.tick()
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str) and obj.__name__ == "join":
            obj = partial(self._join, d=owner)
        elif isinstance(owner, str) and obj.__name__ == "replace":
            obj = partial(self._replace, owner)
        return self.budget.check(super().call(context, obj, *args, **kwargs))

    def wrap_str_format(self, value: Any) -> None:
        """str.format is left to is_safe_attribute, which refuses it: its widths are unbounded."""

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        self.budget.tick()
        if operator == "*":
            self._check_product(left, right)
        elif operator == "+" and isinstance(left, str) and isinstance(right, str):
            self.budget.check_chars(len(left) + len(right))
        elif operator == "**":
            _check_power(left, right)
        elif operator == "%" and isinstance(left, str):
            raise TemplateLimitError("it formats text with %")
        return self.budget.check(super().call_binop(context, operator, left, right))

    # Filters and globals.

    def _bounded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            self.budget.tick()
            return self.budget.check(function(*args, **kwargs))

        return checked

    def _check(self, value: Any) -> Any:
        return self.budget.check(value)

    def _tick(self, value: Any) -> Any:
        self.budget.tick()
        return value

    def _concat(self, parts: Iterable[Any]) -> str:
        texts, chars = [], 0
        for part in parts:
            texts.append(str(part))
            chars += len(texts[-1])
            self.budget.tick()
            self.budget.check_chars(chars)
        return "".join(texts)

    def _join(self, value: Iterable[Any], d: str = "", attribute: str | None = None) -> str:
        if attribute is not None:
            value = [self.getitem(item, attribute) for item in value]
        texts: list[str] = []
        for item in value:
            texts += [str(d), str(item)] if texts else [str(item)]
        return self._concat(texts)

    def _replace(self, s: Any, old: Any, new: Any, count: int = -1) -> str:
        text, old, new = str(s), str(old), str(new)
        times = text.count(old) if count is None or count < 0 else min(text.count(old), count)
        self.budget.check_chars(len(text) + times * len(new))
        return text.replace(old, new, times)

    def _indent(
        self, s: str, width: int | str = 4, first: bool = False, blank: bool = False
    ) -> str:
        lead_chars = len(width) if isinstance(width, str) else int(width)
        self.budget.check_chars(lead_chars)
        lead = width if isinstance(width, str) else " " * lead_chars
        self.budget.check_chars(len(s) + (s.count("\n") + 1) * lead_chars)
        lines = str(s).splitlines() or [""]
        rest = (lead + line if line or blank else line for line in lines[1:])
        return "\n".join([lead + lines[0] if first else lines[0], *rest])

    def _tojson(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        if indent is not None and not 0 <= indent <= 16:
            raise TemplateLimitError(f"it indents JSON by {indent}")
        return json.dumps(
            self.budget.check(value),
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    def _range(self, *args: int) -> range:
        numbers = range(*args)
        if len(numbers) > MAX_RANGE:
            raise TemplateLimitError(f"it loops over more than {MAX_RANGE} numbers")
        return numbers

    def _check_product(self, left: Any, right: Any) -> None:
        for value, times in ((left, right), (right, left)):
            if not isinstance(times, int):
                continue
            if isinstance(value, str):
                self.budget.check_chars(len(value) * times)
            elif isinstance(value, list | tuple) and len(value) * times > MAX_ELEMENTS:
                raise TemplateLimitError(f"it makes a list of more than {MAX_ELEMENTS} elements")


def _check_power(base: Any, exponent: Any) -> None:
    are_integers = isinstance(base, int) and isinstance(exponent, int)
    if are_integers and base.bit_length() * abs(exponent) > MAX_INTEGER_BITS:
        raise TemplateLimitError("it makes a very large number")


def _refuse(message: str) -> None:
    raise Refusal(str(message)[:500])


def _strftime_now(form: str) -> str:
    if len(form) > 100 or not re.fullmatch(r"(?:[^%]|%-?[A-Za-z%])*", form, re.DOTALL):
        raise TemplateLimitError(f"it asks for the date as {form[:40]!r}")
    return datetime.now().strftime(form)


def _instrument(template: nodes.Template) -> None:
    """Let the budget see what passes no hook: loop turns, literals and `~`."""
    for loop in template.find_all(nodes.For):
        loop.body.insert(0, nodes.ExprStmt(_filter("$tick", nodes.Const(None)), lineno=loop.lineno))
    _rewrite(template)
    template.set_environment(template.environment)  # type: ignore[arg-type]


def _rewrite(node: nodes.Node) -> None:
    for field, value in node.iter_fields():
        if isinstance(value, nodes.Node):
            setattr(node, field, _rewritten(value))
        elif isinstance(value, list):
            value[:] = [_rewritten(v) if isinstance(v, nodes.Node) else v for v in value]


def _rewritten(node: nodes.Node) -> nodes.Node:
    _rewrite(node)
    if isinstance(node, nodes.Concat):
        return _filter("$concat", nodes.List(node.nodes, lineno=node.lineno))
    is_load = getattr(node, "ctx", "load") == "load"
    if isinstance(node, nodes.List | nodes.Tuple | nodes.Dict) and is_load:
        return _filter("$check", node)
    return node


def _filter(name: str, value: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(value, name, [], [], None, None, lineno=getattr(value, "lineno", 1))
