"""Folders of models laid out as each program lays them out."""

import hashlib
import json
import os
from functools import cache
from pathlib import Path

from llm_lite.core.hub.local.listing import local_models
from tests.make_gguf import TinyLlama, build_gguf, llama_metadata, llama_tensors

VARIABLES = (
    "HF_HOME",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "LLAMA_CACHE",
    "OLLAMA_MODELS",
    *(f"XDG_{kind}_HOME" for kind in ("CACHE", "CONFIG", "DATA", "STATE")),
)
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OLDER = "89abcdef0123456789abcdef0123456789abcdef"
MODEL, PROJECTOR = "application/vnd.ollama.image.model", "application/vnd.ollama.image.projector"


@cache
def gguf(**metadata) -> bytes:
    """A tiny llama; `metadata` with _ for . beside or in the place of its own."""
    own = {key.replace("__", "."): value for key, value in metadata.items()}
    return build_gguf(llama_metadata(TinyLlama()) | own, llama_tensors(TinyLlama()))


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def hub_repository(cache: Path, repo: str, files, commit=COMMIT, *, links=True, branch="main"):
    """A repository of the Hugging Face cache: name within it -> content."""
    folder = cache / f"models--{repo.replace('/', '--')}"
    snapshot = folder / "snapshots" / commit
    for name, content in files.items():
        place = snapshot / name
        if not links:
            put(place, content)
            continue
        blob = folder / "blobs" / digest(content)
        put(blob, content)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.path.relpath(blob, place.parent))
    if branch:
        put(folder / "refs" / branch, commit.encode())
    return folder


def ollama_blob(root: Path, content: bytes) -> dict:
    """A layer, without its media type."""
    put(root / "blobs" / f"sha256-{digest(content)}", content)
    return {"digest": f"sha256:{digest(content)}", "size": len(content)}


def ollama_manifest(root: Path, content: bytes, **more) -> dict:
    config = ollama_blob(root, b'{"model_format":"gguf"}')
    return {
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": {"mediaType": "application/vnd.docker.container.image.v1+json", **config},
        "layers": [
            {"mediaType": MODEL, **ollama_blob(root, content)},
            {
                "mediaType": "application/vnd.ollama.image.license",
                **ollama_blob(root, b"Apache License"),
            },
        ],
        **more,
    }


def ollama_model(root: Path, name: str, content: bytes, manifest=None) -> Path:
    """`name`: host/namespace/model/tag; the manifest's path."""
    value = ollama_manifest(root, content) if manifest is None else manifest
    return put(root / "manifests" / name, json.dumps(value).encode())


def listed(places=None, **options):
    """Every local model but the bundled one, by name."""
    return {m.name: m for m in local_models(places, **options) if m.origin != "bundled"}
