"""Resolves what a person calls a model to its path."""

from __future__ import annotations

import re
from pathlib import Path

from llm_lite.core.errors import RequestError
from llm_lite.core.files.places import expanded
from llm_lite.core.hub import bundled
from llm_lite.core.hub.bundled import DEFAULT, CatalogueEntry, entries, title_of
from llm_lite.core.hub.local.found import ON_A_HUB
from llm_lite.core.plain_text import quote

__all__ = ["DEFAULT", "CatalogueEntry", "entries", "resolve", "title_of"]


def resolve(source: str | None) -> Path:
    """Return the file or directory of a catalogue name, a path, `hf:owner/name[:file]` or a unique
    part of a local name; None means the default model.

    The disk is looked through only for what is none of the first two. Raises RequestError for what
    is nothing of all that, or more than one model; FileError for one that is not whole. A path is
    not opened here: its reader says what is wrong with it.
    """
    name = DEFAULT if source is None else source
    known = bundled.find(name)
    if known is not None:
        return known.path or _instead(known)
    if name.lower().startswith(ON_A_HUB) and "/" in name:
        from llm_lite.core.hub.local import (
            resolving,  # not before the disk has to be looked through
        )

        return resolving.on_a_hub(name[len(ON_A_HUB) :]).path
    if _has_folders(name) or _is_there(name):
        if _may_be_repository(name) and not _is_there(name):
            advice = f"for a model that was fetched from a hub say {ON_A_HUB}{name}"
            raise RequestError(f"{name}: no such file; {advice}")
        return expanded(name)
    from llm_lite.core.hub.local import resolving

    found = resolving.by_name(name)
    if found is not None:
        return found.path
    if name.lower().endswith((".gguf", ".safetensors")):
        return expanded(name)
    names = ", ".join(entry.name for entry in entries())
    raise RequestError(
        f"unknown model {quote(name)}: expected the path of a GGUF file or of a Hugging Face "
        f"directory, a name or a part of one as `llm-lite models list` shows it, or {names}"
    )


def _instead(entry: CatalogueEntry) -> Path:
    """Return another program's model of that very name. FileError if there is none."""
    from llm_lite.core.hub.local import resolving

    found = resolving.by_whole_name(entry.name)
    if found is None:
        raise bundled.not_installed(entry)
    return found.path


def _has_folders(text: str) -> bool:
    return "/" in text or "\\" in text


def _may_be_repository(text: str) -> bool:
    """Return True for OWNER/NAME, perhaps with a file of it, rather than the path of a file."""
    return re.fullmatch(r"\w[\w.-]*/\w[\w.-]*(:.+)?", text) is not None and not re.search(
        r"\.[a-z]{2,12}$", text.partition(":")[0]
    )


def _is_there(text: str) -> bool:
    try:
        return text != "" and Path(text).exists()
    except (OSError, ValueError):  # too long for a file name, or with a null character
        return False
