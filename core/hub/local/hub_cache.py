"""Deleting from the Hugging Face cache, by huggingface_hub's own functions and within its folder.

They follow a snapshot's links to the blobs that they delete, so no link may lead out of its
repository: such a cache was not made by huggingface_hub, and what it links to is none of ours.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace  # noqa: TID251 - huggingface_hub's records are dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from llm_lite.core.errors import FileError
from llm_lite.core.files.writing import reason
from llm_lite.core.hub.local.places.huggingface import repositories, snapshots
from llm_lite.core.messages.library import LocalModel

_BRANCH_BYTES = 1 << 16
# Weights that this program reads nowhere, or not beside a GGUF file; smaller ones are settings.
_OF_OTHERS = frozenset(
    [".bin", ".ckpt", ".h5", ".safetensors", ".onnx", ".onnx_data", ".pt", ".pth"]
)
_NO_WEIGHTS = 64 << 10  # bytes

if TYPE_CHECKING:
    from huggingface_hub import DeleteCacheStrategy, HFCacheInfo


class _Doomed(Struct, frozen=True):
    """The entries of one repository's snapshots that are to be deleted, of all commits that have
    them. `whole`: no model stays, here or for other programs, so that the repository is deleted
    with its documents."""

    repository: Path
    entries: tuple[Path, ...]
    whole: bool


def frees(cache: Path, models: Sequence[LocalModel], kept: Sequence[LocalModel]) -> int:
    """Return the bytes that deleting these models frees, each blob once, without those that another
    snapshot refers to."""
    return sum(map(_freed, _strategies(cache, _doomed(cache, models, kept))))


def remove(cache: Path, models: Sequence[LocalModel], kept: Sequence[LocalModel]) -> int:
    """Delete models and return the bytes that were freed. FileError for what could not be
    deleted."""
    freed = 0
    for strategy in _strategies(cache, _doomed(cache, models, kept)):
        frees_here = _freed(strategy)
        try:
            strategy.execute()
        except OSError as error:
            raise FileError(cache, f"cannot be deleted from: {reason(error)}") from None
        for path in (*strategy.repos, *strategy.snapshots, *strategy.files, *strategy.blobs):
            if os.path.lexists(path):
                raise FileError(path, "cannot be removed: may this user write to its folder?")
        freed += frees_here
    return freed


def _freed(strategy: DeleteCacheStrategy) -> int:
    """Return the bytes of the files that are deleted, each once; nothing of a file that has a name
    elsewhere too.

    The library's own number is of what snapshots refer to, and blobs that none refers to go too. It
    alone knows what is shared between repositories, where blobs are links to a common store.
    """
    if any(map(Path.is_symlink, _blobs(strategy))):
        return strategy.expected_freed_size
    sizes: dict[tuple[int, int], int] = {}
    names: Counter[tuple[int, int]] = Counter()
    links: dict[tuple[int, int], int] = {}
    roots = (*strategy.repos, *strategy.snapshots, *strategy.files, *strategy.blobs)
    for path in {file for root in roots for file in _regular_files(root)}:
        status = path.lstat()
        file = status.st_dev, status.st_ino or hash(path)
        names[file] += 1
        sizes[file], links[file] = status.st_size, status.st_nlink
    return sum(size for file, size in sizes.items() if names[file] >= links[file])


def _blobs(strategy: DeleteCacheStrategy) -> Iterator[Path]:
    yield from strategy.blobs
    for repository in strategy.repos:
        yield from (repository / "blobs").glob("*")


def _regular_files(root: Path) -> Iterator[Path]:
    """Yield the file itself, or those below a folder, without following folders that are links."""
    if root.is_symlink() or not root.is_dir():
        yield from [root] if root.is_file() and not root.is_symlink() else []
        return
    for folder, _, found in os.walk(root):
        paths = [Path(folder, name) for name in found]
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


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
        whole = not (staying or _is_fetched_into(repository) or _has_others(repository, there))
        yield _Doomed(repository, there, whole)


def _has_others(repository: Path, gone: Sequence[Path]) -> bool:
    """Return True if weights stay that are for other programs than this one."""
    entries = set(gone)
    return any(
        path not in entries and path.suffix.lower() in _OF_OTHERS and _size(path) > _NO_WEIGHTS
        for snapshot in snapshots(repository)
        for path in _files(snapshot)
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _is_fetched_into(repository: Path) -> bool:
    """Return True while a download of another file runs, or is to continue later."""
    return any((repository / "blobs").glob("*.incomplete"))


def _repository(cache: Path, path: Path) -> Path:
    return cache / path.relative_to(cache).parts[0]


def _inside(repository: Path, model: LocalModel) -> Iterator[Path]:
    """Yield the paths of a model's files within a snapshot."""
    for file in model.files:
        parts = file.relative_to(repository / "snapshots").parts
        yield Path(*parts[1:])


def _strategies(cache: Path, doomed: Iterator[_Doomed]) -> Iterator[DeleteCacheStrategy]:
    info = _scanned(cache)
    repos = () if info is None else info.repos
    for one in doomed:
        _check_links(one)
        repo = next((r for r in repos if r.repo_path.name == one.repository.name), None)
        if info is None or repo is None:
            yield _by_hand(cache, one)
            continue
        alone = replace(info, repos=frozenset({repo}))
        if one.whole:
            yield alone.delete_revisions(*(revision.commit_hash for revision in repo.revisions))
            continue
        entries = set(one.entries)
        files = {file for revision in repo.revisions for file in revision.files}
        yield alone.delete_files(*(file for file in files if file.file_path in entries))


def _scanned(cache: Path) -> HFCacheInfo | None:
    """Return huggingface_hub's scan of the cache; None if a repository in it is damaged in a way
    that the library does not expect."""
    from huggingface_hub import scan_cache_dir

    try:
        return scan_cache_dir(cache) if all(map(_branches_are_plain, repositories(cache))) else None
    except (OSError, ValueError, RuntimeError):
        return None


def _branches_are_plain(repository: Path) -> bool:
    """Return True if every branch is a small file, as huggingface_hub reads them whole."""
    for folder, _, names in os.walk(repository / "refs"):
        for name in names:
            status = Path(folder, name).stat()
            if not stat.S_ISREG(status.st_mode) or status.st_size > _BRANCH_BYTES:
                return False
    return True


def _check_links(doomed: _Doomed) -> None:
    """Raise FileError if a link leads out of the repository, or not to its blobs."""
    if doomed.repository.is_symlink():  # the link alone would go, and nothing be freed
        place = doomed.repository.readlink()
        raise FileError(doomed.repository, f"is a link to {place}: delete it there, and the link")
    root, blobs = doomed.repository.resolve(), doomed.repository / "blobs"
    if blobs.is_symlink():
        raise FileError(blobs, f"is a link to {blobs.readlink()}, expected the folder itself")
    for path in doomed.entries:
        if not path.parent.resolve().is_relative_to(root):
            raise FileError(path, f"lies in {path.parent.resolve()}, expected a folder in {root}")
        if path.is_symlink() and (blob := _linked_to(path)).parent != blobs:
            raise FileError(path, f"links to {blob}, expected a file in {blobs}")


def _linked_to(path: Path) -> Path:
    """Return the first path that a link leads to, as huggingface_hub follows it."""
    return Path(os.path.normpath(path.parent / path.readlink()))


def _by_hand(cache: Path, doomed: _Doomed) -> DeleteCacheStrategy:
    """Return a deletion for a repository that huggingface_hub takes for corrupted: entries, and
    blobs that no other entry links to; for a whole repository its documents too."""
    from huggingface_hub import DeleteCacheStrategy

    every = [path for snapshot in snapshots(doomed.repository) for path in _files(snapshot)]
    gone = {*doomed.entries, *(every if doomed.whole else ())}
    needed = {_linked_to(path) for path in every if path.is_symlink() and path not in gone}
    linked = {_linked_to(path) for path in gone if path.is_symlink()}
    blobs = {path for path in linked - needed if path.parent == doomed.repository / "blobs"}
    sizes = {path: path.lstat().st_size for path in (*blobs, *gone) if path.is_file()}
    links = sum(sizes.get(path, 0) for path in gone if path.is_symlink())
    return DeleteCacheStrategy(
        expected_freed_size=sum(sizes.values()) - links,
        blobs=frozenset(path for path in blobs if path.is_file()),
        refs=frozenset(),
        repos=frozenset(),
        snapshots=frozenset(),
        files=frozenset(gone),
        cache_dir=cache,
    )


def _files(snapshot: Path) -> list[Path]:
    """Return links and files, without following folders that are links."""
    return [path for path in snapshot.rglob("*") if path.is_symlink() or path.is_file()]
