"""The cache of huggingface_hub, which newer llama.cpp shares.

    models--owner--name/
        blobs/      a file's bytes, named by their hash; NAME.incomplete while they are fetched
        snapshots/  a folder a commit, with links to the blobs (files where there are no links)
        refs/       the commit of each branch, a line of text

https://huggingface.co/docs/huggingface_hub/guides/manage-cache
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.files.json_text import read_bytes
from llm_lite.core.files.writing import reason
from llm_lite.core.hub.local.found import Found, broken
from llm_lite.core.hub.local.grouping import MOST_ENTRIES, Walk, as_found, groups
from llm_lite.core.hub.local.places.user import at_home, environment_path
from llm_lite.core.messages.library import Origin
from llm_lite.core.records import replace

_REPOSITORY = "models--"
_COMMIT_BYTES = 200
_MOST_SNAPSHOTS = 1000  # of a repository


def folders() -> tuple[Path, ...]:
    """Return the cache's folder, found as huggingface_hub does."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if (path := environment_path(variable)) is not None:
            return (path,)
    if (path := environment_path("HF_HOME")) is not None:
        return (path / "hub",)
    if (path := environment_path("XDG_CACHE_HOME")) is not None:
        return (path / "huggingface" / "hub",)
    return at_home(".cache", "huggingface", "hub")


def find(folder: Path, origin: Origin = "huggingface") -> Iterator[Found]:
    for repository in repositories(folder):
        try:
            yield from _models(folder, repository, origin)
        except OSError as error:
            yield broken(origin, repository, f"{repository}: cannot be read: {reason(error)}")


def repositories(folder: Path) -> list[Path]:
    """Return the folders of repositories in the cache. OSError if the cache cannot be read."""
    with os.scandir(folder) as entries:
        found = [
            Path(entry.path)
            for _, entry in zip(range(MOST_ENTRIES), entries, strict=False)
            if entry.name.startswith(_REPOSITORY) and entry.is_dir()
        ]
    return sorted(found)


def repo_of(folder: Path) -> str:
    """Return owner/name from the folder's name."""
    return folder.name.removeprefix(_REPOSITORY).replace("--", "/", 1)


def snapshots(repository: Path) -> list[Path]:
    """Return snapshots, the newest first: those that a branch names, then others by name.
    OSError."""
    place = repository / "snapshots"
    if not place.is_dir():
        return []
    with os.scandir(place) as entries:
        found = [
            Path(entry.path)
            for _, entry in zip(range(_MOST_SNAPSHOTS), entries, strict=False)
            if entry.is_dir(follow_symlinks=False)  # a link would lead out of the cache
        ]
    named = {commit: number for number, commit in enumerate(_commits(repository))}
    return sorted(found, key=lambda path: (named.get(path.name, len(named)), path.name))


def _commits(repository: Path) -> list[str]:
    """Return the commits of the branches, main's first."""
    walk = Walk(repository / "refs", deepest=4, most=1000)
    files = [folder / name for folder, names in walk.folders() for name in names]
    found = []
    for path in sorted(files, key=lambda path: (path.name != "main", path)):
        try:
            found.append(read_bytes(path, _COMMIT_BYTES).decode("ascii").strip())
        except (LlmLiteError, UnicodeDecodeError):
            continue
    return found


def _models(folder: Path, repository: Path, origin: Origin) -> Iterator[Found]:
    """Yield each model once, from the newest snapshot that has it."""
    repo = repo_of(repository)
    seen = set()
    for snapshot in snapshots(repository):
        walk = Walk(snapshot, deepest=4)
        for place, files in walk.folders():
            for group in groups(files):
                found = as_found(origin, folder, place, group)
                key = (place.relative_to(snapshot), group.name, group.form)
                if key in seen or (group.form != "gguf" and place != snapshot):
                    continue
                seen.add(key)
                label = found.label if group.form == "gguf" else repo.rpartition("/")[2]
                yield replace(found, label=label, repo=repo, revision=snapshot.name)
        for path, problem in walk.problems:
            yield broken(origin, path, f"{path}: {problem}")
