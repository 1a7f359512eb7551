"""Deleting from the Hugging Face cache, by huggingface_hub's own functions and within its folder.

They follow a snapshot's links to the blobs that they delete, so no link may lead out of its
repository: such a cache was not made by huggingface_hub, and what it links to is none of ours.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from llm_lite.core.errors import FileError
from llm_lite.core.files.writing import reason
from llm_lite.core.hub.local.places.huggingface import snapshots
from llm_lite.core.messages.library import LocalModel

if TYPE_CHECKING:
    from huggingface_hub import DeleteCacheStrategy


@dataclass(frozen=True, slots=True)
class _Doomed:
    """Of one repository: entries of snapshots, of all commits that have them; `whole`: nothing
    that is a model stays, so that the repository goes with its documents."""

    repository: Path
    entries: tuple[Path, ...]
    whole: bool


def frees(cache: Path, models: Sequence[LocalModel], kept: Sequence[LocalModel]) -> int:
    """Bytes, each blob once, without those that another snapshot refers to."""
    return sum(one.expected_freed_size for one in _strategies(cache, _doomed(cache, models, kept)))


def remove(cache: Path, models: Sequence[LocalModel], kept: Sequence[LocalModel]) -> int:
    """The bytes that were freed. FileError for what could not be deleted."""
    freed = 0
    for strategy in _strategies(cache, _doomed(cache, models, kept)):
        try:
            strategy.execute()
        except OSError as error:
            raise FileError(cache, f"cannot be deleted from: {reason(error)}") from None
        for path in (*strategy.repos, *strategy.snapshots, *strategy.files, *strategy.blobs):
            if os.path.lexists(path):
                raise FileError(path, "cannot be removed: may this user write to its folder?")
        freed += strategy.expected_freed_size
    return freed


def _doomed(
    cache: Path, models: Sequence[LocalModel], kept: Sequence[LocalModel]
) -> Iterator[_Doomed]:
    repositories = {_repository(cache, model.path): model for model in models}
    for repository in repositories:
        here = [model for model in models if _repository(cache, model.path) == repository]
        staying = [m for m in kept if m.path.is_relative_to(repository)]
        inside = {name for model in here for name in _inside(repository, model)}
        entries = [snapshot / name for snapshot in snapshots(repository) for name in inside]
        there = tuple(path for path in sorted(entries) if os.path.lexists(path))
        yield _Doomed(repository, there, not staying)


def _repository(cache: Path, path: Path) -> Path:
    return cache / path.relative_to(cache).parts[0]


def _inside(repository: Path, model: LocalModel) -> Iterator[Path]:
    """The paths of a model's files within a snapshot."""
    for file in model.files:
        parts = file.relative_to(repository / "snapshots").parts
        yield Path(*parts[1:])


def _strategies(cache: Path, doomed: Iterator[_Doomed]) -> Iterator[DeleteCacheStrategy]:
    from huggingface_hub import scan_cache_dir

    info = scan_cache_dir(cache)
    for one in doomed:
        _check_links(one)
        repo = next((r for r in info.repos if r.repo_path.name == one.repository.name), None)
        if repo is None:  # its index does not hold: it is deleted without one
            yield _by_hand(cache, one)
            continue
        alone = replace(info, repos=frozenset({repo}))
        if one.whole:
            yield alone.delete_revisions(*(revision.commit_hash for revision in repo.revisions))
            continue
        entries = set(one.entries)
        files = {file for revision in repo.revisions for file in revision.files}
        yield alone.delete_files(*(file for file in files if file.file_path in entries))


def _check_links(doomed: _Doomed) -> None:
    """FileError where a link leads out of the repository, or not to its blobs."""
    root = doomed.repository.resolve()
    for path in doomed.entries:
        if not path.parent.resolve().is_relative_to(root):
            raise FileError(path, f"lies in {path.parent.resolve()}, expected a folder in {root}")
        if not path.is_symlink():
            continue
        blob = linked_to(path)
        if blob.parent != doomed.repository / "blobs":
            raise FileError(path, f"links to {blob}, expected a file in {doomed.repository}/blobs")


def linked_to(path: Path) -> Path:
    """The first that a link leads to, as huggingface_hub follows it."""
    return Path(os.path.normpath(path.parent / path.readlink()))


def _by_hand(cache: Path, doomed: _Doomed) -> DeleteCacheStrategy:
    """Of a repository that huggingface_hub takes for corrupted: entries, and blobs that no other
    entry links to."""
    from huggingface_hub import DeleteCacheStrategy

    others = {
        linked_to(path)
        for snapshot in snapshots(doomed.repository)
        for path in snapshot.rglob("*")
        if path.is_symlink() and path not in doomed.entries
    }
    blobs = {linked_to(path) for path in doomed.entries if path.is_symlink()}
    free = {path for path in blobs if path not in others and path.is_file()}
    sizes = sum(path.stat().st_size for path in free)
    sizes += sum(path.lstat().st_size for path in doomed.entries if not path.is_symlink())
    return DeleteCacheStrategy(
        expected_freed_size=sizes,
        blobs=frozenset(free),
        refs=frozenset(),
        repos=frozenset(),
        snapshots=frozenset(),
        files=frozenset(doomed.entries),
        cache_dir=cache,
    )
