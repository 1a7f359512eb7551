"""`dataclass` as in the standard library; methods are compiled when one of them is first used.

The program declares 640 dataclasses before its first frame and uses a quarter of them by then. The
standard library compiles up to six methods of each at once, before Python 3.13 one by one: 0.2 s of
a start that should take 0.5 s. Here a class is declared with methods that stand in for those; the
first call of any compiles `__init__`, `__eq__` and `__hash__` of that class in one piece.

Fields, defaults, `replace`, `fields`, `asdict`, `slots`, `kw_only`, `__post_init__`, and methods of
the class itself mean what they mean there; `order` and `InitVar` are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    from functools import partial
    from reprlib import recursive_repr

    def dataclass(cls=None, /, **options):
        """Return the class with methods made of its annotations.

        Options: frozen, slots, kw_only, eq, repr, each as in `dataclasses.dataclass`.
        """
        if cls is None:
            return partial(dataclass, **options)
        if any(_is_frozen_there(base) for base in cls.__mro__[1:]):  # it must be of one kind
            return dataclasses.dataclass(cls, **options)
        return _declare(cls, **options)

    def _is_frozen_there(base):
        """Return True for a frozen class of the standard library; classes that are made here are
        marked as not frozen."""
        return "__dataclass_params__" in base.__dict__ and base.__dataclass_params__.frozen

    def _declare(cls, *, frozen=False, slots=False, kw_only=False, eq=True, repr=True):
        if cls.__doc__ is None:
            cls.__doc__ = cls.__name__  # or the standard library writes its signature there
        made = dataclasses.dataclass(
            cls, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only
        )
        _offer(made, "__init__", _stand_in(made, "__init__"))
        if repr:
            _offer(made, "__repr__", _repr)
        own_hash = made.__dict__.get("__hash__")  # None too where Python put it beside an `__eq__`
        if eq:
            _offer(made, "__eq__", _stand_in(made, "__eq__"))
        if eq and own_hash is None:
            made.__hash__ = _stand_in(made, "__hash__") if frozen else None
        if frozen:
            made.__setattr__, made.__delattr__ = _refuse_to_set, _refuse_to_delete
            if slots:  # the usual way of copies and pickles sets attributes
                _offer(made, "__getstate__", _state)
                _offer(made, "__setstate__", _set_state)
        return made

    def _offer(made, name, method):
        """Set the method unless the class has one of that name, and return True if it was set."""
        if name in made.__dict__:
            return False
        setattr(made, name, method)
        return True

    def _stand_in(made, name):
        def method(self, *args, **named):
            _compile(made)
            return getattr(made, name)(self, *args, **named)

        method.__name__, method.__qualname__ = name, f"{made.__qualname__}.{name}"
        method.stands_in = True
        return method

    def _compile(made):
        """Put the real methods in place of those that compile them."""
        fields = dataclasses.fields(made)
        names = {"_set": object.__setattr__, "_absent": dataclasses.MISSING}
        for field in fields:
            names[f"_default_{field.name}"] = field.default
            names[f"_factory_{field.name}"] = field.default_factory
        compared = _tuple(field.name for field in fields if field.compare)
        hashed = _tuple(
            field.name for field in fields if (field.compare if field.hash is None else field.hash)
        )
        text = [
            *_init_lines(made, fields),
            "def __eq__(self, other):",
            "    if other.__class__ is not self.__class__:",
            "        return NotImplemented",
            f"    return {compared.format(of='self')} == {compared.format(of='other')}",
            "def __hash__(self):",
            f"    return hash({hashed.format(of='self')})",
        ]
        # Compiled first: Python ends `python -m` by SIGINT after a Ctrl-C that came while it ran
        # a text, whatever exit code it was given.
        exec(compile("\n".join(text), f"<methods of {made.__qualname__}>", "exec"), names)
        for name in ("__init__", "__eq__", "__hash__"):
            if getattr(made.__dict__.get(name), "stands_in", False):
                names[name].__qualname__ = f"{made.__qualname__}.{name}"
                setattr(made, name, names[name])

    def _init_lines(made, fields):
        given = [field for field in fields if field.init]
        places = [_parameter(field) for field in given if not field.kw_only]
        named = [_parameter(field) for field in given if field.kw_only]
        parameters = ", ".join(["self", *places, *(["*", *named] if named else [])])
        lines = [f"def __init__({parameters}):"]
        lines += [_assignment(made, field) for field in fields if field.init or _is_made(field)]
        if hasattr(made, "__post_init__"):
            lines.append("    self.__post_init__()")
        return lines if len(lines) > 1 else [*lines, "    pass"]

    def _parameter(field):
        if field.default is not dataclasses.MISSING:
            return f"{field.name}=_default_{field.name}"
        return f"{field.name}=_absent" if _is_made(field) else field.name

    def _is_made(field):
        return field.default_factory is not dataclasses.MISSING

    def _assignment(made, field):
        name, value = field.name, field.name
        if _is_made(field):
            value = f"_factory_{name}()"
            if field.init:
                value += f" if {name} is _absent else {name}"
        return (
            f"    _set(self, {name!r}, {value})"
            if made.__setattr__ is _refuse_to_set
            else f"    self.{name} = {value}"
        )

    def _tuple(names):
        """Return the text of a tuple of attributes of `{of}`."""
        return "(" + "".join(f"{{of}}.{name}, " for name in names) + ")"

    @recursive_repr()
    def _repr(self):
        shown = (field.name for field in dataclasses.fields(self) if field.repr)
        pairs = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({pairs})"

    def _refuse_to_set(self, name, value):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_to_delete(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _state(self):
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def _set_state(self, state):
        for field, value in zip(dataclasses.fields(self), state, strict=True):
            object.__setattr__(self, field.name, value)
