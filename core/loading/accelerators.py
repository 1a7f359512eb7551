"""Finds the executors that installed packages register by name, and imports only the one that is
asked for."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.accelerator import GROUP, Accelerator
from llm_lite.core.exec.guarded import guarded, message_text, shown
from llm_lite.core.messages.options import BACKENDS
from llm_lite.core.plain_text import one_line

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_OURS = (*BACKENDS, "remote")
_ASKED = ("name", "device", "activations", "takes", "weight_bytes", "runner")


def accelerator_names() -> tuple[str, ...]:
    """Return the names of the executors that packages register, in order; nothing is imported."""
    return tuple(sorted(_registered()[0]))


def ignored_accelerators() -> tuple[str, ...]:
    """Return a sentence for each executor of a package that cannot be chosen by its name."""
    return _registered()[1]


def backend_names() -> tuple[str, ...]:
    """Return all words of `--backend`."""
    return (*BACKENDS, *accelerator_names())


def accelerator(name: str) -> Accelerator:
    """Return the accelerator of this name, with its errors guarded. RequestError if there is none,
    or if its package fails."""
    entry = _registered()[0].get(name)
    if entry is None:
        raise RequestError(f"backend {name!r}: expected one of {', '.join(backend_names())}")
    return _loaded(entry)


def check_backend(name: str) -> None:
    """Raise a RequestError if no executor has this name."""
    if name not in backend_names():
        raise RequestError(f"backend: expected one of {', '.join(backend_names())}, found {name!r}")


@cache
def _registered() -> tuple[dict[str, EntryPoint], tuple[str, ...]]:
    """Return entry points by name, and why others are left out."""
    found, ignored = dict[str, EntryPoint](), list[str]()
    for entry in entry_points(group=GROUP):
        where = f"{one_line(entry.name)} of the package {_package(entry)}"
        if not _NAME.fullmatch(entry.name):
            ignored.append(f"{where}: expected a name of small letters, digits and dashes")
        elif entry.name in _OURS:
            ignored.append(f"{where}: the name is taken by an executor of llm-lite")
        elif entry.name in found:
            ignored.append(f"{where}: the package {_package(found[entry.name])} has this name too")
        else:
            found[entry.name] = entry
    return found, tuple(ignored)


def _package(entry: EntryPoint) -> str:
    return one_line(entry.dist.name if entry.dist else entry.value)


@cache
def _loaded(entry: EntryPoint) -> Accelerator:
    try:
        return _checked(entry, entry.load())
    except (RequestError, KeyboardInterrupt):
        raise
    except BaseException as error:  # `sys.exit` at import must not end the program
        why = one_line(f"{type(error).__name__}: {message_text(error)}")
        raise RequestError(
            f"backend {entry.name}: the package {_package(entry)} cannot be imported: {why}"
        ) from error


def _checked(entry: EntryPoint, found: Any) -> Accelerator:
    """Return what a package registers, guarded. RequestError if it is no accelerator."""
    where = f"backend {entry.name}: {entry.value} of the package {_package(entry)}: expected"
    if isinstance(found, type):
        raise RequestError(f"{where} an accelerator, found the class {found.__name__}")
    missing = [name for name in _ASKED if not hasattr(found, name)]
    if missing:
        kind = type(found).__name__
        raise RequestError(f"{where} an accelerator, found {kind} without {', '.join(missing)}")
    if found.name != entry.name:
        raise RequestError(f"{where} the name {entry.name}, found {shown(found.name)}")
    if not isinstance(found.activations, str) or found.activations not in ("a32", "a8"):
        raise RequestError(f"{where} activations a32 or a8, found {shown(found.activations)}")
    return guarded(found)
