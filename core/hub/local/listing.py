"""Which places a machine has, and everything that is found in them, named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from llm_lite.core.files.writing import reason
from llm_lite.core.hub.local.found import Found, broken
from llm_lite.core.hub.local.header_cache import HeaderCache
from llm_lite.core.hub.local.headers import Header
from llm_lite.core.hub.local.naming import in_order, names
from llm_lite.core.hub.local.places import (
    bundled,
    huggingface,
    imported,
    llama_cpp,
    lm_studio,
    ollama,
    ours,
)
from llm_lite.core.hub.local.sources import made_of, name_of
from llm_lite.core.messages.library import LocalModel, Origin
from llm_lite.core.records import dataclass

_FINDERS: dict[Origin, Callable[[Path], Iterator[Found]]] = {
    "llm-lite": ours.find,
    "huggingface": huggingface.find,
    "lm-studio": lm_studio.find,
    "ollama": ollama.find,
    "llama.cpp": llama_cpp.find,
    "imported": imported.find,
}


@dataclass(frozen=True, slots=True)
class Places:
    """Where models are looked for: folders by who put them there; of "imported" the list's file."""

    folders: tuple[tuple[Origin, Path], ...]
    bundled: bool = True

    def of(self, origin: Origin) -> list[Path]:
        return [path for one, path in self.folders if one == origin]


def machine_places() -> Places:
    """As the programs themselves would find them, those that are there."""
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
    """Every model on this machine, the broken ones with what is wrong with them.

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
    """None where nothing is there."""
    try:
        return path.resolve() if path.exists() else None
    except PermissionError:
        return path
    except (OSError, RuntimeError):
        return None


def _find(places: Places) -> list[Found]:
    """A path that two places have is the first one's; in one place it may have several names."""
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
