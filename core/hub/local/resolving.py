"""Resolves what a person types to one local model."""

from __future__ import annotations

from collections.abc import Sequence

from llm_lite.core.errors import RequestError
from llm_lite.core.hub.local.found import ON_A_HUB, Found
from llm_lite.core.hub.local.listing import Places, local_models
from llm_lite.core.messages.library import LocalModel
from llm_lite.core.plain_text import quote

_MOST_NAMED = 5


def by_name(text: str, places: Places | None = None) -> LocalModel | None:
    """Return the model of that name, or the only one whose name has it as a part; None if none has.
    RequestError for several, and for one that cannot be used."""
    part = text.strip().lower()
    models = local_models(
        places,
        wanted=lambda name, one: _has(name, one, part) or f"{name}@{one.origin}" == part,
    )
    return _usable(text, candidates(text, models))


def by_whole_name(name: str) -> LocalModel | None:
    found = local_models(wanted=lambda one, _: one == name)
    return found[0] if found else None


def on_a_hub(text: str, places: Places | None = None) -> LocalModel:
    """Return the local model of owner/name[:file], where file may be a part of its name as
    "q4_k_m". RequestError if it is not here, or not the only one."""
    repo = text.partition(":")[0]
    of_repo = local_models(places, wanted=lambda _, one: one.repo.lower() == repo.lower())
    found = _usable(text, _of_hub(text, of_repo))
    if found is not None:
        return found
    here = f"; of {quote(repo)} there is {_list(of_repo)}" if of_repo else ""
    raise RequestError(
        f"{quote(text)} is not on this machine{here}: fetch it with `llm-lite models pull {text}`"
    )


def candidates(text: str, models: Sequence[LocalModel]) -> list[LocalModel]:
    """Return the model of that name, or name@place; else those whose name has it as a part, or
    those of hf:owner/name[:file]."""
    part = text.strip().lower()
    if not part:
        return []
    if part.startswith(ON_A_HUB) and "/" in part:
        return _of_hub(part[len(ON_A_HUB) :], models)
    exact = [model for model in models if model.name == part]
    placed = [model for model in models if f"{model.name}@{model.origin}" == part]
    return exact or placed or [model for model in models if _has(model.name, model, part)]


def ambiguous(text: str, found: Sequence[LocalModel]) -> str:
    return f"{quote(text)} is part of several names: {_list(found)}; say more of one"


def _of_hub(text: str, models: Sequence[LocalModel]) -> list[LocalModel]:
    repo, _, file = text.lower().partition(":")
    return [model for model in models if model.repo.lower() == repo and _is_file(model, file)]


def _has(name: str, model: LocalModel | Found, part: str) -> bool:
    """Return True if the name has that part, or the model's file has that name, as a person copies
    it from a page."""
    return part in name or (model.form == "gguf" and part == model.path.name.lower())


def _is_file(model: LocalModel, file: str) -> bool:
    """Return True if `file` is the model's file or a part of its name; for a checkpoint, any of its
    files."""
    if model.form == "huggingface" and any(file == one.name.lower() for one in model.files):
        return True
    inside = model.path.as_posix().lower()
    return file in model.path.name.lower() or ("/" in file and inside.endswith(f"/{file}"))


def _usable(text: str, found: Sequence[LocalModel]) -> LocalModel | None:
    """Return the one model that can be used; None if there is none. RequestError for several, or
    for one that cannot be used."""
    fit = [model for model in found if not model.problem] or list(found)
    if len(fit) > 1:
        raise RequestError(ambiguous(text, fit))
    if fit and fit[0].problem:
        raise RequestError(f"{fit[0].name} cannot be used: {fit[0].problem}")
    return fit[0] if fit else None


def _list(models: Sequence[LocalModel]) -> str:
    names = [model.name for model in models[:_MOST_NAMED]]
    more = len(models) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
