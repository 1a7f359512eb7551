"""Suggests names that could have been meant by one that a hub does not have."""

from __future__ import annotations

import contextlib
import difflib
import re
from functools import partial
from typing import TYPE_CHECKING

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.hub.remote.access import Hub, Stop, call_hub, never
from llm_lite.core.hub.remote.failures import HubError, HubStatusError
from llm_lite.core.hub.remote.repositories import Repository, checked_name, read_repository

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_MOST, _ASKED = 3, 200
_LIKENESS = 0.6


def read_or_suggest(hub: Hub, repo: str, revision: str = "", stop: Stop = never) -> Repository:
    """Read a repository as `read_repository` does; if there is none of the name, the error suggests
    similar ones."""
    try:
        return read_repository(hub, repo, revision, stop)
    except HubStatusError as error:
        if error.code != "RepoNotFound":
            raise
        near = _near(hub, repo, stop)
        if not near:
            raise
        raise HubError(f"{error}; near it are: {', '.join(near)}") from None


def _near(hub: Hub, repo: str, stop: Stop) -> list[str]:
    """Return similar names of the same owner, then of anyone; a failed search is no error."""
    owner, _, name = repo.rpartition("/")
    words = " ".join(re.split(r"[-_.]", name)[:2])
    questions: list[dict[str, str]] = [{"author": owner}] if owner else []
    for question in [*questions, {"search": words}]:
        found: list[str] = []
        with contextlib.suppress(LlmLiteError):
            found = call_hub(hub, partial(_names, question=question), stop=stop)
        near = difflib.get_close_matches(repo, found, _MOST, _LIKENESS)
        if near:
            return near
    return []


def _names(api: HfApi, question: dict[str, str]) -> list[str]:
    models = api.list_models(**question, sort="downloads", limit=_ASKED)  # type: ignore[arg-type]
    names = []
    for model in models:
        with contextlib.suppress(HubError):
            names.append(checked_name(model.id))
    return names
