"""Ollama: manifests by name, which name blobs by their hash.

    manifests/registry.ollama.ai/library/gemma3/4b   a JSON file: layers, each with media type,
                                                     digest and size
    manifests-v2/...                                 the same, as links to blobs
    blobs/sha256-...                                 a layer's bytes; the model is a GGUF file

A list of manifests has one for each kind of engine; the first with a GGUF file is taken.
https://github.com/ollama/ollama/blob/main/manifest/manifest.go
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from llm_lite.core.errors import FileError, LlmLiteError
from llm_lite.core.files.json_text import found as shown
from llm_lite.core.files.json_text import read_object
from llm_lite.core.hub.local.found import Found, broken
from llm_lite.core.hub.local.grouping import Walk
from llm_lite.core.hub.local.places.user import at_home, environment_path

_MODEL = "application/vnd.ollama.image.model"
_ADAPTER = "application/vnd.ollama.image.adapter"
_MANIFEST_BYTES = 4 << 20
_MOST_LAYERS = 10_000
_DIGEST = re.compile(r"sha256[:-]([0-9a-fA-F]{64})")
_HOST, _NAMESPACE, _TAG = "registry.ollama.ai", "library", "latest"
_HUBS = ("hf.co", "huggingface.co")  # hosts whose names are repositories
_TREES = ("manifests-v2", "manifests")


def folders() -> tuple[Path, ...]:
    """Return the folders of models of a person's server, and of the system's."""
    if (path := environment_path("OLLAMA_MODELS")) is not None:
        return (path,)
    system = () if sys.platform == "win32" else (Path("/usr/share/ollama/.ollama/models"),)
    return (*at_home(".ollama", "models"), *system)


def find(folder: Path) -> Iterator[Found]:
    seen = set()
    for tree in _TREES:
        root = folder / tree
        if not root.is_dir():
            continue
        walk = Walk(root, deepest=4)
        for place, files in walk.folders():
            for file in sorted(files):
                parts = (*place.relative_to(root).parts, file)
                if len(parts) != 4 or file.startswith(".") or parts in seen:
                    continue
                seen.add(parts)
                yield _model(folder, place / file, parts)
        for path, problem in walk.problems:
            yield broken("ollama", path, f"{path}: {problem}")


def _model(folder: Path, manifest: Path, parts: tuple[str, ...]) -> Found:
    label = _label(*parts)
    try:
        path, files = _files(folder, manifest)
    except LlmLiteError as error:
        return broken("ollama", manifest, str(error), label)
    repo = f"{parts[1]}/{parts[2]}" if parts[0] in _HUBS else ""
    return Found(label, path, "ollama", "gguf", files, repo, place=folder)


def _label(host: str, namespace: str, name: str, tag: str) -> str:
    """Return a model's name as `ollama list` shows it, without what is the same for most."""
    words = [name] if namespace == _NAMESPACE else [namespace, name]
    if host != _HOST:
        words = [host, *words]
    return "/".join(words) + ("" if tag == _TAG else f":{tag}")


def _files(folder: Path, manifest: Path) -> tuple[Path, tuple[Path, ...]]:
    """Return the model's blob, and all blobs of the manifest. FileError."""
    for one in _manifests(folder, manifest):
        layers = _layers(manifest, one)
        models = [layer for layer in layers if layer.get("mediaType") == _MODEL]
        if not models:
            continue
        if any(layer.get("mediaType") == _ADAPTER for layer in layers):
            raise FileError(manifest, "has an adapter (LoRA), which is not applied here")
        model = _blob(folder, manifest, models[0])
        others = (_place(folder, manifest, layer) for layer in layers)
        return model, tuple(dict.fromkeys((model, *filter(Path.is_file, others))))
    raise FileError(
        manifest,
        "names no layer of type application/vnd.ollama.image.model, which alone can be read here "
        "(a model in the cloud, or in safetensors for MLX)",
    )


def _manifests(folder: Path, manifest: Path) -> Iterator[Mapping[str, Any]]:
    value = read_object(manifest, limit=_MANIFEST_BYTES)
    entries = value.get("manifests")
    if not isinstance(entries, list):
        yield value
        return
    for entry in entries[:100]:
        if isinstance(entry, dict) and isinstance(entry.get("layers"), list):
            yield entry
        elif isinstance(entry, dict) and "digest" in entry:
            yield read_object(_blob(folder, manifest, entry), limit=_MANIFEST_BYTES)


def _layers(manifest: Path, value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    layers = value.get("layers")
    if not isinstance(layers, list) or not all(isinstance(layer, dict) for layer in layers):
        raise FileError(manifest, f"layers is {shown(layers)}, expected a list of objects")
    if len(layers) > _MOST_LAYERS:
        raise FileError(manifest, f"has {len(layers)} layers, expected at most {_MOST_LAYERS}")
    config = value.get("config")
    return [*layers, config] if isinstance(config, dict) and config.get("digest") else layers


def _blob(folder: Path, manifest: Path, layer: Mapping[str, Any]) -> Path:
    """Return the path of a blob. FileError if it is not there, or has another size than the
    manifest says."""
    path, size = _place(folder, manifest, layer), layer.get("size")
    try:
        found = path.stat().st_size
    except OSError:
        raise FileError(path, f"is not there, and {manifest} names it") from None
    if type(size) is int and size != found:
        raise FileError(path, f"expected {size} bytes, as {manifest} says, found {found}")
    return path


def _place(folder: Path, manifest: Path, layer: Mapping[str, Any]) -> Path:
    """Return a blob's path. FileError if the digest is none, and could name any file."""
    digest = layer.get("digest")
    match = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
    if match is None:
        raise FileError(manifest, f"digest is {shown(digest)}, expected sha256: and 64 digits")
    return folder / "blobs" / f"sha256-{match[1]}"
