"""Repositories of the hub that tests run: commits of files, with the hashes that the hub gives."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.formats.gguf_reader import open_gguf

LFS = (".gguf", ".safetensors", ".bin", ".model")
LFS_BYTES = 64 << 10  # larger files are kept so whatever they are called


@dataclass(frozen=True)
class HubBlob:
    """A file's content, in memory or on the disk, and what git calls it."""

    content: bytes | Path
    size: int
    oid: str  # git's SHA-1
    sha256: str  # "" where it is not in LFS

    @property
    def etag(self) -> str:
        return self.sha256 or self.oid

    def read(self, start: int, count: int) -> bytes:
        if isinstance(self.content, bytes):
            return self.content[start : start + count]
        with self.content.open("rb") as file:
            file.seek(start)
            return file.read(count)

    def entry(self, path: str) -> dict[str, Any]:
        """As a row of a tree."""
        row: dict[str, Any] = {"type": "file", "oid": self.oid, "size": self.size, "path": path}
        if self.sha256:
            row["lfs"] = {"oid": self.sha256, "size": self.size, "pointerSize": 134}
        return row

    def sibling(self, path: str, blobs: bool) -> dict[str, Any]:
        row: dict[str, Any] = {"rfilename": path}
        if blobs:
            row |= {"size": self.size, "blobId": self.oid}
            if self.sha256:
                row["lfs"] = {"sha256": self.sha256, "size": self.size, "pointerSize": 134}
        return row


def blob_of(name: str, content: bytes | Path) -> HubBlob:
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    git, sha = hashlib.sha1(f"blob {size}\0".encode()), hashlib.sha256()
    for start in range(0, size, 1 << 20):
        if isinstance(content, bytes):
            piece = content[start : start + (1 << 20)]
        else:
            with content.open("rb") as file:
                file.seek(start)
                piece = file.read(1 << 20)
        git.update(piece)
        sha.update(piece)
    lfs = name.lower().endswith(LFS) or size > LFS_BYTES
    return HubBlob(content, size, git.hexdigest(), sha.hexdigest() if lfs else "")


@dataclass
class HubRepository:
    """`commits`: files by name, by commit, the newest last. `details`: what else the hub says."""

    name: str
    commits: dict[str, dict[str, HubBlob]] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)

    def commit(self, files: Mapping[str, bytes | Path]) -> str:
        """A new commit of these files; its hash."""
        blobs = {name: blob_of(name, content) for name, content in files.items()}
        return self.commit_blobs(blobs)

    def commit_blobs(self, blobs: dict[str, HubBlob]) -> str:
        words = json.dumps(
            [self.name, len(self.commits), sorted((n, b.oid) for n, b in blobs.items())]
        )
        sha = hashlib.sha1(words.encode()).hexdigest()
        self.commits[sha] = blobs
        return sha

    @property
    def head(self) -> str:
        return list(self.commits)[-1]

    def resolve(self, revision: str) -> str | None:
        if revision == "main":
            return self.head
        return revision if revision in self.commits else None

    def model(self, commit: str, *, blobs: bool) -> dict[str, Any]:
        """What the hub's API says of a model."""
        files = self.commits[commit]
        found: dict[str, Any] = {
            "_id": hashlib.sha1(self.name.encode()).hexdigest()[:24],
            "id": self.name,
            "modelId": self.name,
            "author": self.name.partition("/")[0],
            "sha": commit,
            "lastModified": "2025-09-01T12:00:00.000Z",
            "createdAt": "2025-01-01T12:00:00.000Z",
            "private": False,
            "gated": False,
            "disabled": False,
            "downloads": 0,
            "likes": 0,
            "library_name": "transformers",
            "pipeline_tag": "text-generation",
            "tags": [],
            "usedStorage": sum(blob.size for blob in files.values()),
            "siblings": [blob.sibling(name, blobs) for name, blob in files.items()],
        }
        return found | self.details


def repository_of(name: str, folder: Path) -> HubRepository:
    """Of a folder's files; `hub.json` beside them, where there is one, has more that the hub says
    ("downloads", "gated", "tags", ...)."""
    files = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "hub.json"
    }
    repository = HubRepository(name)
    repository.commit(files)
    repository.details |= _described(files)
    extra = folder / "hub.json"
    if extra.is_file():
        repository.details |= json.loads(extra.read_text())
    return repository


def _described(files: Mapping[str, Path]) -> dict[str, Any]:
    """What the hub finds in the files itself: GGUF's header, config.json."""
    found: dict[str, Any] = {}
    for name, path in files.items():
        if name.endswith(".gguf") and "gguf" not in found:
            with contextlib.suppress(LlmLiteError):
                found["gguf"] = _gguf(path)
        if name == "config.json":
            config = json.loads(path.read_text())
            found["config"] = {
                key: config[key] for key in ("architectures", "model_type") if key in config
            }
    return found


def _gguf(path: Path) -> dict[str, Any]:
    file = open_gguf(path)
    try:
        name = str(file.metadata["general.architecture"])
        total = 0
        for tensor in file.tensors.values():
            count = 1
            for length in tensor.shape:
                count *= length
            total += count
        context = file.metadata.get(f"{name}.context_length", 0)
        return {"total": total, "architecture": name, "context_length": context}
    finally:
        file.close()
