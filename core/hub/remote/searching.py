"""Searches models of a hub by words and filters, the most downloaded first; and shows one with all
details."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from msgspec import Struct

from llm_lite.core.errors import CancelledError, LlmLiteError, RequestError
from llm_lite.core.hub.remote.access import Hub, Stop, call_hub, hub_of_environment, never
from llm_lite.core.hub.remote.cards import config_of, context_of, description_of
from llm_lite.core.hub.remote.failures import HubError
from llm_lite.core.hub.remote.repositories import (
    checked_name,
    model_of,
    read_or_suggest,
    read_repository,
)
from llm_lite.core.messages.library import HubModel
from llm_lite.core.models.registry import ARCHITECTURES, MODEL_TYPES
from llm_lite.core.records import replace

if TYPE_CHECKING:
    from huggingface_hub import HfApi, ModelInfo

MOST_RESULTS = 100
_AT_ONCE = 6  # questions for details
_MORE_ROWS = 4  # rows that are read for each result, as filters leave some out
_LONGEST_WORDS = 200  # characters
_EXPAND = ["config", "gguf", "gated", "downloads", "pipeline_tag", "tags", "safetensors"]


class SearchFilters(Struct, frozen=True):
    """Filters of a search. `most_bytes`: of the smallest file that runs here. licence: as the hub
    writes it."""

    task: str = "text-generation"  # the hub's pipeline tag; "": any
    most_bytes: int = 0  # 0: any
    licence: str = ""
    runnable: bool = True


USUAL = SearchFilters()


def search(
    words: str,
    filters: SearchFilters = USUAL,
    limit: int = 20,
    stop: Stop = never,
) -> list[HubModel]:
    """Search the hub; results have the sizes of files. RequestError, HubError, CancelledError."""
    words = words.strip()
    if len(words) > _LONGEST_WORDS or not words.isprintable():
        raise RequestError(
            f"the words to search for are {len(words):,} characters, expected "
            f"at most {_LONGEST_WORDS} plain ones"
        )
    if not 1 <= limit <= MOST_RESULTS:
        raise RequestError(f"limit is {limit}, expected 1 to {MOST_RESULTS} results")
    hub = hub_of_environment()
    rows = call_hub(hub, lambda api: _rows(api, words, filters, limit * _MORE_ROWS), stop=stop)
    names = [name for row in rows if (name := _name(row)) and _may_run(row, filters)]
    return _detailed(hub, names, filters, limit, stop)


def _rows(api: HfApi, words: str, filters: SearchFilters, limit: int) -> list[ModelInfo]:
    tags = [f"license:{filters.licence.lower()}"] if filters.licence else None
    return list(
        api.list_models(
            search=words or None,
            filter=tags,
            pipeline_tag=filters.task or None,
            sort="downloads",
            limit=limit,
            expand=_EXPAND,  # type: ignore[arg-type]
        )
    )


def _name(row: ModelInfo) -> str:
    try:
        return checked_name(row.id) if isinstance(row.id, str) else ""
    except HubError:
        return ""


def _may_run(row: ModelInfo, filters: SearchFilters) -> bool:
    """Return False for a row with an unknown architecture, before its files are requested."""
    if not filters.runnable:
        return True
    gguf, config = row.gguf, row.config
    names = [
        gguf.get("architecture") if isinstance(gguf, dict) else None,
        config.get("model_type") if isinstance(config, dict) else None,
    ]
    known = [name for name in names if isinstance(name, str)]
    return not known or any(name in ARCHITECTURES or name in MODEL_TYPES for name in known)


def _detailed(
    hub: Hub, names: Sequence[str], filters: SearchFilters, limit: int, stop: Stop
) -> list[HubModel]:
    """Return details in the hub's order, requested a few at a time until there are enough."""
    found: list[HubModel] = []
    failures: list[LlmLiteError] = []
    ended = threading.Event()

    def details(name: str) -> HubModel | None:
        try:
            return model_of(read_repository(hub, name, stop=lambda: ended.is_set() or stop()))
        except CancelledError:
            raise
        except LlmLiteError as error:  # one that is gone meanwhile hides no other
            failures.append(error)
            return None

    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="hub-search")
    try:
        for start in range(0, len(names), limit):
            models = list(pool.map(details, names[start : start + limit]))
            found += [model for model in models if model is not None and _fits(model, filters)]
            if len(found) >= limit:
                break
            if len(failures) >= limit:
                break
    finally:  # questions that a hub has not answered are not waited for, as after Ctrl-C
        ended.set()
        pool.shutdown(wait=False, cancel_futures=True)
    if failures and not found:
        raise failures[0]
    return found[:limit]


def _fits(model: HubModel, filters: SearchFilters) -> bool:
    if filters.runnable and not model.runnable:
        return False
    if not filters.most_bytes:
        return True
    sizes = [file.size for file in model.files if not file.problem]
    return bool(sizes) and min(sizes) <= filters.most_bytes


def show(repo: str, revision: str = "", stop: Stop = never) -> HubModel:
    """Return a model with a description from its model card. HubError, CancelledError."""
    found = read_or_suggest(hub_of_environment(), repo, revision, stop)
    model, config = model_of(found), config_of(found, stop)
    return replace(
        model,
        description=description_of(found, stop),
        context=model.context or context_of(config),
        config=config,
    )
