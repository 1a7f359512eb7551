"""The list of this machine's models: the places that it has, and everything that is found in them,
named."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, get_args

from msgspec import Struct

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.files.json_text import read_object
from llm_lite.core.files.places import user_folder
from llm_lite.core.files.writing import make_folder, reason, write_file
from llm_lite.core.formats.variant_reader import MANIFEST_FILE
from llm_lite.core.hub.local.found import ON_A_HUB, Found, MadeOf, broken
from llm_lite.core.hub.local.headers import Header, read_header
from llm_lite.core.hub.local.places import (
    bundled,
    huggingface,
    imported,
    llama_cpp,
    lm_studio,
    ollama,
    ours,
)
from llm_lite.core.messages.library import Form, LocalModel, Origin
from llm_lite.core.models.description.slices import SLICE_FILE
from llm_lite.core.models.registry import ARCHITECTURES
from llm_lite.core.plain_text import one_line
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.records import asdict

_LONGEST_SOURCE = 200  # characters of a name that a manifest tells


_LAYOUT = 1
_MOST = 5000  # headers
_BYTES = 16 << 20
_KINDS = {name: type(getattr(Header(), name)) for name in Header.__struct_fields__}


class HeaderCache:
    """The cache of headers. Use as a context: what was read is kept when it ends. A cache that
    cannot be read or written costs time and nothing else."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or user_folder("cache") / "model-headers.json"
        self._known = _read(self._file)
        self._used: dict[str, list[Any]] = {}
        self._changed = False

    def __enter__(self) -> HeaderCache:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._changed:
            return
        kept = {**self._known, **self._used}
        newest = dict(list(kept.items())[-_MOST:])
        try:
            make_folder(self._file.parent)
            content = {"layout": _layout(), "headers": newest}
            write_file(self._file, json.dumps(content).encode(), private=True)
        except (LlmLiteError, OSError):
            return

    def header(self, form: Form, path: Path, files: Sequence[Path]) -> Header:
        if form == "slice":  # what it says is another model's
            return read_header(form, path)
        stamp = _stamp(files)
        key = str(path)
        known = self._known.get(key)
        if stamp and known is not None and known[:2] == [form, stamp]:
            return Header(**known[2])
        header = read_header(form, path)
        lasts = not header.problem or not header.runnable  # else it may be mended
        if stamp and lasts and key.isprintable():  # no half characters: JSON has no place for them
            self._used[key] = [form, stamp, asdict(header)]
            self._changed = True
        return header


ORIGINS: tuple[Origin, ...] = get_args(Origin)
_LONGEST = 80  # characters
_IDENTITY = re.compile(r"-[0-9a-f]{16}(?=(-(int4|int8|fp16|fp32))?$)")  # of a variant or slice
_FINDERS: dict[Origin, Callable[[Path], Iterator[Found]]] = {
    "llm-lite": ours.find,
    "huggingface": huggingface.find,
    "lm-studio": lm_studio.find,
    "ollama": ollama.find,
    "llama.cpp": llama_cpp.find,
    "imported": imported.find,
}


class Places(Struct, frozen=True):
    """The places of models: folders by the program that filled them; for "imported" the list's
    file."""

    folders: tuple[tuple[Origin, Path], ...]
    bundled: bool = True

    def of(self, origin: Origin) -> list[Path]:
        return [path for one, path in self.folders if one == origin]


def machine_places() -> Places:
    """Return the places that exist, found as the programs themselves would find them."""
    every: list[tuple[Origin, Sequence[Path]]] = [
        ("llm-lite", ours.folders()),
        ("huggingface", huggingface.folders()),
        ("lm-studio", lm_studio.folders()),
        ("ollama", ollama.folders()),
        ("llama.cpp", llama_cpp.folders()),
        ("imported", (imported.list_file(),)),
    ]
    seen: set[Path] = set()
    found: list[tuple[Origin, Path]] = []
    for origin, paths in every:
        for path in paths:
            real = _real(path)
            if real is not None and real not in seen:
                seen.add(real)
                found.append((origin, path.absolute()))
    return Places(tuple(found))


def local_models(
    places: Places | None = None,
    *,
    companions: bool = False,
    wanted: Callable[[str, Found], bool] = lambda name, found: True,
) -> list[LocalModel]:
    """Return every model on this machine, the broken ones with what is wrong with them.

    companions: also files that belong to a model and are none, as projectors of images. wanted: by
    name and place; the headers of others are not read.
    """
    where = machine_places() if places is None else places
    models = in_order(_find(where))
    sizes = [_size(model.files) for model in models]
    named = list(zip(names(models), models, sizes, strict=True))
    chosen = [one for one in named if wanted(one[0], one[1])]
    with HeaderCache() as cache:
        headers = [_header(cache, model) for _, model, _ in chosen]
    return [
        _described(one, header, named)
        for one, header in zip(chosen, headers, strict=True)
        if companions or not header.companion
    ]


def _real(path: Path) -> Path | None:
    """Return the resolved path; None if nothing is there."""
    try:
        return path.resolve() if path.exists() else None
    except PermissionError:
        return path
    except (OSError, RuntimeError):
        return None


def _find(places: Places) -> list[Found]:
    """Return everything that is found; a path that two places have is the first one's; in one place
    it may have several names."""
    found = list(bundled.find()) if places.bundled else []
    owners = {model.path: model.origin for model in found}
    for origin, folder in places.folders:
        try:
            for model in _FINDERS[origin](folder):
                if owners.setdefault(model.path, origin) == origin:
                    found.append(model)
        except OSError as error:
            found.append(broken(origin, folder, f"{folder}: cannot be read: {reason(error)}"))
    return found


def _header(cache: HeaderCache, model: Found) -> Header:
    if model.problem:
        return Header(problem=model.problem)
    return cache.header(model.form, model.path, model.files)


def _described(
    one: tuple[str, Found, int], header: Header, named: Sequence[tuple[str, Found, int]]
) -> LocalModel:
    name, model, size = one
    source = made_of(model)
    return LocalModel(
        name=name,
        path=model.path,
        origin=model.origin,
        form=model.form,
        files=model.files,
        size=size,
        architecture=header.architecture,
        runnable=header.runnable,
        format=header.format,
        parameters=header.parameters,
        context=header.context,
        vocabulary=header.vocabulary,
        licence=header.licence or model.licence,
        repo=model.repo,
        revision=model.revision,
        made_of="" if source is None else name_of(source, named),
        problem=model.problem or header.problem,
    )


def _size(files: Sequence[Path]) -> int:
    sizes = {}
    for file in files:
        try:
            status = file.stat()
        except OSError:
            continue
        sizes[status.st_dev, status.st_ino or hash(file)] = status.st_size
    return sum(sizes.values())


def in_order(models: Sequence[Found]) -> list[Found]:
    """Return models in the order in which they are named and listed."""
    return sorted(
        models, key=lambda one: (ORIGINS.index(one.origin), _plain(one.label), str(one.path))
    )


def names(models: Sequence[Found]) -> list[str]:
    """Return unique names of models in order."""
    taken: dict[str, Found] = {}
    for model in models:
        name = next(name for name in _candidates(model, taken) if name not in taken)
        taken[name] = model
    return list(taken)


def _candidates(model: Found, taken: dict[str, Found]) -> Iterator[str]:
    plain = _plain(model.label)
    owner = _plain(model.repo.partition("/")[0]) if "/" in model.repo else ""
    first = taken.get(plain)
    same_place = first is not None and first.origin == model.origin
    marks = [owner, model.origin] if same_place and owner else [model.origin, owner]
    yield plain
    yield from (f"{plain}@{mark}" for mark in marks if mark)
    digest = _digest(model.path)
    yield f"{plain}@{digest}"
    yield from (f"{plain}@{digest}-{number}" for number in count(2))


def _plain(label: str) -> str:
    label = _IDENTITY.sub("", label)
    text = re.sub(r"[^\w.:+-]+", "-", one_line(label)).lower()
    text = re.sub(r"-{2,}", "-", text).strip("-.:")
    return text[:_LONGEST].strip("-.:") or "model"


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:8]


def _stamp(files: Sequence[Path]) -> str:
    """Return a hash that changes when one of the files does; "" if one cannot be read."""
    digest = hashlib.sha256()
    for file in files:
        try:
            status = file.stat()
        except OSError:
            return ""
        digest.update(f"{status.st_ino} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:32]


def _layout() -> str:
    """Return a hash of what this version knows: another one knows other models, and describes the
    same file differently."""
    known = f"{_LAYOUT} {sorted(ARCHITECTURES)} {sorted(FORMATS)}"
    return hashlib.sha256(known.encode()).hexdigest()[:16]


def _read(file: Path) -> dict[str, list[Any]]:
    try:
        value = read_object(file, limit=_BYTES)
    except LlmLiteError:
        return {}
    headers = value.get("headers")
    if value.get("layout") != _layout() or not isinstance(headers, dict):
        return {}
    return {key: one for key, one in headers.items() if _is_header(one)}


def _is_header(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 3 or not isinstance(value[2], dict):
        return False
    return {key: type(one) for key, one in value[2].items()} == _KINDS


def made_of(model: Found) -> MadeOf | None:
    """Return the source that a model was made of; None if it was made of nothing, or does not name
    it."""
    try:
        if model.form == "variant":
            return _of_variant(read_object(model.path / MANIFEST_FILE).get("source"))
        if model.form == "slice":
            return _of_slice(model.path, read_object(model.path / SLICE_FILE).get("source"))
    except LlmLiteError:  # its header says what is wrong with it
        return None
    return None


def _of_variant(source: object) -> MadeOf | None:
    if not isinstance(source, dict):
        return None
    size = source.get("bytes")
    return MadeOf(_text(source, "made_of"), _text(source, "name"), size if type(size) is int else 0)


def _of_slice(folder: Path, source: object) -> MadeOf | None:
    if not isinstance(source, str) or len(source) > 4096:
        return None
    try:
        path = (folder / source).resolve()
    except (OSError, ValueError, RuntimeError):
        return None
    return MadeOf(file=path.name, path=path)


def name_of(source: MadeOf, named: Sequence[tuple[str, Found, int]]) -> str:
    """Return the local name of a source: of (name, model, size) the one that it is; else its
    recorded name, if it is no longer here. Never the name of a model that it is not."""
    known = [one for one in named if _may_be(source, one[1], one[2])]
    for name, model, _ in known:
        if source.path is not None and _same(source.path, model.path):
            return name
    for name, model, _ in known:
        if source.known_as and (source.known_as == name or _is_on_hub(source.known_as, model)):
            return name
    for name, model, _ in known:
        if source.size and source.file == model.path.name:
            return name
    label = source.known_as or Path(source.file).stem
    return f"another {label}" if any(name == label for name, _, _ in named) else label


def _may_be(source: MadeOf, model: Found, size: int) -> bool:
    """Return False for a model of another size or repository, though names may be equal."""
    repo = source.known_as.removeprefix(ON_A_HUB).partition(":")[0]
    if source.known_as.startswith(ON_A_HUB) and model.repo and model.repo != repo:
        return False
    return not source.size or source.size in _sizes(model, size)


def _sizes(model: Found, size: int) -> tuple[int, ...]:
    """Return the sizes in bytes by which a manifest may identify a model: all files, its GGUF file
    alone (in Ollama's folder a licence is added to it), a folder's weights."""
    if model.form == "gguf":
        return size, _own_size(model.path)
    return size, sum(_own_size(file) for file in model.files if file.suffix == ".safetensors")


def _same(one: Path, other: Path) -> bool:
    try:
        return one == other or one.samefile(other)
    except OSError:
        return False


def _is_on_hub(known_as: str, model: Found) -> bool:
    """Return True if hf:owner/name[:file] is this model; the file may be in a folder, or be one of
    those of a checkpoint."""
    repo, _, file = known_as.removeprefix(ON_A_HUB).partition(":")
    if not known_as.startswith(ON_A_HUB) or not model.repo or repo != model.repo:
        return False
    name = file.rpartition("/")[2]
    return name in ("", model.path.name) or _is_weights_of(model, name)


def _is_weights_of(model: Found, name: str) -> bool:
    return model.form == "huggingface" and any(file.name == name for file in model.files)


def _own_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _text(source: Mapping[str, Any], key: str) -> str:
    value = source.get(key)
    return value if isinstance(value, str) and len(value) <= _LONGEST_SOURCE else ""
