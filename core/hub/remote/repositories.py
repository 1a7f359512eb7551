"""The hub's description of a repository, as one of our messages; nothing of it is trusted."""

from __future__ import annotations

import contextlib
import datetime
import difflib
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.formats.huggingface_reader import PACKED
from llm_lite.core.hub.remote.access import Hub, Stop, call_hub, never
from llm_lite.core.hub.remote.failures import HubError, HubStatusError
from llm_lite.core.hub.remote.files import (
    MOST_FILES,
    RemoteFile,
    choices,
    is_name,
    usable_file,
    usable_path,
)
from llm_lite.core.messages.library import HubFile, HubModel
from llm_lite.core.models.registry import ARCHITECTURES, MODEL_TYPES
from llm_lite.core.plain_text import one_line, quote

if TYPE_CHECKING:
    from huggingface_hub import HfApi, ModelInfo

_COMMIT = re.compile(r"[0-9a-f]{40}")
_LONGEST = 100  # characters of a word that a hub says
_MOST, _ASKED = 3, 200
_LIKENESS = 0.6


class Repository(Struct, frozen=True):
    """A commit of a repository. left_out: why files are not among the usable ones, a name each."""

    hub: Hub
    repo: str
    commit: str
    files: tuple[RemoteFile, ...]
    left_out: tuple[str, ...]
    info: ModelInfo


def checked_name(repo: str) -> str:
    """Return OWNER/NAME. HubError for what can be no such name."""
    if not is_name(repo):
        raise HubError(f"{quote(repo)} is no name of a repository, expected OWNER/NAME")
    return repo


def read_repository(hub: Hub, repo: str, revision: str = "", stop: Stop = never) -> Repository:
    """Read what a repository has now, of one commit: later questions name it."""
    checked_name(repo)
    if revision and not usable_path(revision):  # a file in the cache is called by it
        raise HubError(f"{quote(revision)} is no name of a branch, a tag or a commit")
    info = call_hub(
        hub,
        lambda api: api.model_info(repo, revision=revision or None, files_metadata=True),
        repo=repo,
        stop=stop,
    )
    commit = info.sha
    if not isinstance(commit, str) or _COMMIT.fullmatch(commit) is None:
        raise HubError(f"{hub.name} gives no commit of {repo}, expected 40 hexadecimal digits")
    files, left_out = _files(hub, repo, info)
    return Repository(hub, repo, commit, files, left_out, info)


def _files(hub: Hub, repo: str, info: ModelInfo) -> tuple[tuple[RemoteFile, ...], tuple[str, ...]]:
    siblings = info.siblings or []
    if len(siblings) > MOST_FILES:
        raise HubError(
            f"{repo} has {len(siblings):,} files at {hub.name}, expected at most {MOST_FILES:,}"
        )
    usable, left_out = [], []
    for one in siblings:
        lfs = one.lfs
        file = RemoteFile(
            one.rfilename,
            one.size if lfs is None else lfs.size,  # type: ignore[arg-type]
            one.blob_id if isinstance(one.blob_id, str) else "",
            lfs.sha256 if lfs is not None else "",
        )
        if isinstance(file.sha256, str) and usable_file(file):
            usable.append(file)
        else:
            why = "no size and hash" if usable_path(file.path) else "no plain relative path"
            left_out.append(f"{quote(str(file.path))}, which has {why}")
    return tuple(usable), tuple(left_out)


def model_of(found: Repository, description: str = "") -> HubModel:
    """Return the message that describes a repository."""
    info = found.info
    config, gguf = _mapping(info.config), _mapping(info.gguf)
    files = choices(found.files, checkpoint_format=_dtype(info))
    architecture = _architecture(gguf, config, files)
    problem = _problem(architecture, gguf, config, files)
    return HubModel(
        repo=found.repo,
        revision=found.commit,
        architecture=architecture,
        runnable=not problem,
        problem=problem,
        parameters=_parameters(info),
        context=_count(gguf.get("context_length")) or _count(config.get("max_position_embeddings")),
        licence=_licence(info),
        gated=bool(info.gated),
        task=_word(info.pipeline_tag),
        downloads=_count(info.downloads),
        updated=_date(info.last_modified),
        description=description,
        files=files,
    )


def _architecture(
    gguf: Mapping[str, Any], config: Mapping[str, Any], files: Sequence[HubFile]
) -> str:
    """Return the architecture: GGUF files and a checkpoint have different words for it; what can be
    fetched decides."""
    names = [_word(gguf.get("architecture")), _word(config.get("model_type"))]
    if files and files[0].form == "huggingface":
        names.reverse()
    return next(filter(None, names), "")


def _problem(
    architecture: str,
    gguf: Mapping[str, Any],
    config: Mapping[str, Any],
    files: Sequence[HubFile],
) -> str:
    """Return a sentence on why nothing of it runs here; "" if something does, or might."""
    if not files:
        return "the repository has no GGUF file and no safetensors checkpoint with its config.json"
    if architecture and architecture not in ARCHITECTURES and architecture not in MODEL_TYPES:
        return f"this program does not know the architecture {quote(architecture)}"
    quantized = config.get("quantization_config")
    method = quantized.get("quant_method") if isinstance(quantized, dict) else quantized
    if method and method not in PACKED and all(file.form == "huggingface" for file in files):
        return f"its weights are quantized by {quote(_word(method))}, which is not read here"
    if all(file.problem for file in files):
        return f"{quote(files[0].name)}: {files[0].problem}"
    return ""


def _dtype(info: ModelInfo) -> str:
    """Return the type of most of a checkpoint's weights."""
    counts = _mapping(info.safetensors.parameters) if info.safetensors else {}
    sizes = {name: _count(count) for name, count in counts.items() if isinstance(name, str)}
    return _word(max(sizes, key=lambda name: sizes[name])) if sizes else ""


def _parameters(info: ModelInfo) -> int:
    total = _count(info.safetensors.total) if info.safetensors else 0
    return total or _count(_mapping(info.gguf).get("total"))


def _licence(info: ModelInfo) -> str:
    card = info.card_data
    find = getattr(card, "get", None)
    named = find("license_name") or find("license") if callable(find) else None
    if isinstance(named, list):
        named = ", ".join(str(one) for one in named[:5])
    if isinstance(named, str) and named != "other":
        return _word(named)
    tags = [tag for tag in info.tags or [] if isinstance(tag, str)]
    return next((_word(tag[8:]) for tag in tags if tag.startswith("license:")), _word(named))


def _date(value: object) -> str:
    return value.date().isoformat() if isinstance(value, datetime.datetime) else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < 1 << 62 else 0


def _word(value: object) -> str:
    return one_line(value)[:_LONGEST] if isinstance(value, str) else ""


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
