"""From what a person types to one local model."""

from __future__ import annotations

from collections.abc import Sequence

from llm_lite.core.errors import RequestError
from llm_lite.core.hub.local.found import ON_A_HUB
from llm_lite.core.hub.local.machine import local_models
from llm_lite.core.messages.library import LocalModel
from llm_lite.core.plain_text import quote

_MOST_NAMED = 5


def by_name(text: str, models: Sequence[LocalModel] | None = None) -> LocalModel | None:
    """The model of that name, or the only one whose name has it as a part; None where none has.
    RequestError for several, and for one that cannot be used."""
    return _usable(text, candidates(text, local_models() if models is None else models))


def by_whole_name(name: str) -> LocalModel | None:
    return next((model for model in local_models() if model.name == name), None)


def on_a_hub(text: str, models: Sequence[LocalModel] | None = None) -> LocalModel:
    """The local model of owner/name[:file], where file may be a part of its name as "q4_k_m".
    RequestError where it is not here, or not the only one."""
    every = local_models() if models is None else models
    found = _usable(text, _of_hub(text, every))
    if found is not None:
        return found
    repo = text.partition(":")[0]
    of_repo = _of_hub(repo, every)
    here = f"; of {quote(repo)} there is {_list(of_repo)}" if of_repo else ""
    raise RequestError(
        f"{quote(text)} is not on this machine{here}: fetch it with `llm-lite models pull {text}`"
    )


def candidates(text: str, models: Sequence[LocalModel]) -> list[LocalModel]:
    """The one of that name, or name@place; else those whose name has it as a part. Or those of
    hf:owner/name[:file]."""
    name = text.strip().lower()
    if not name:
        return []
    if name.startswith(ON_A_HUB) and "/" in name:
        return _of_hub(name[len(ON_A_HUB) :], models)
    exact = [model for model in models if model.name == name]
    placed = [model for model in models if f"{model.name}@{model.origin}" == name]
    return exact or placed or [model for model in models if _has(model, name)]


def ambiguous(text: str, found: Sequence[LocalModel]) -> str:
    return f"{quote(text)} is part of several names: {_list(found)}; say more of one"


def _of_hub(text: str, models: Sequence[LocalModel]) -> list[LocalModel]:
    repo, _, file = text.lower().partition(":")
    return [model for model in models if model.repo.lower() == repo and _is_file(model, file)]


def _has(model: LocalModel, part: str) -> bool:
    return part in model.name or (model.form == "gguf" and part == model.path.name.lower())


def _is_file(model: LocalModel, file: str) -> bool:
    inside = model.path.as_posix().lower()
    return file in model.path.name.lower() or ("/" in file and inside.endswith(f"/{file}"))


def _usable(text: str, found: Sequence[LocalModel]) -> LocalModel | None:
    """Of several those that can be used count."""
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
