"""Deleting models: a plan that says what it frees, and its execution.

What is deleted: models in our own folder, and in the Hugging Face cache, which is a cache of ours
as much as of others. What other programs manage they remove themselves; a path that was imported is
only forgotten.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from llm_lite.core.errors import FileError, RequestError
from llm_lite.core.files.folders import remove_file, remove_folder
from llm_lite.core.files.places import expanded
from llm_lite.core.formats.variant_reader import listed_files
from llm_lite.core.hub import bundled
from llm_lite.core.hub.local import hub_cache, resolving
from llm_lite.core.hub.local.listing import Places, local_models, machine_places
from llm_lite.core.hub.local.places import imported
from llm_lite.core.messages.library import LocalModel
from llm_lite.core.plain_text import quote


class Removal(Struct, frozen=True):
    """A planned deletion: `frees` are the bytes by which the disk has more room afterwards, each
    blob counted once, and what others still need not at all. `notes` are sentences on what a person
    may not expect."""

    models: tuple[LocalModel, ...]
    frees: int
    notes: tuple[str, ...]
    places: Places


def removal(
    wanted: Sequence[str],
    *,
    variants: bool = False,
    sources: bool = True,
    places: Places | None = None,
) -> Removal:
    """Plan the deletion of models by name or path. variants: also what was made of them; without
    `sources` that alone. RequestError if a name is none, or the model is not ours to delete."""
    where = machine_places() if places is None else places
    every = local_models(where, companions=True)
    named = [_named(text, every) for text in wanted]
    chosen = list(named) if sources else []
    if variants:
        names = {model.name for model in named}
        chosen += [model for model in every if model.made_of in names]
    chosen = list(dict.fromkeys(chosen))
    if not chosen:
        raise RequestError(f"nothing was made of {', '.join(model.name for model in named)}")
    for model in chosen:
        _check_ours(model)
    frees = sum(_frees(where, chosen))
    return Removal(tuple(chosen), frees, tuple(_notes(chosen, every)), where)


def delete_models(plan: Removal) -> int:
    """Delete the models and return the bytes that were freed. FileError for what cannot be deleted,
    after all else was: what is gone already is no error."""
    freed, problems = 0, []
    for model in plan.models:
        if model.origin == "huggingface":
            continue
        try:
            freed += _remove(model, plan.places)
        except FileError as error:
            problems.append(error)
    for folder, models in _by_cache(plan.places, plan.models):
        try:
            freed += hub_cache.remove(folder, models, _kept(models, folder))
        except FileError as error:
            problems.append(error)
    if problems:
        raise problems[0]
    return freed


def _kept(models: Sequence[LocalModel], folder: Path) -> list[LocalModel]:
    """Return the models that stay in a cache, as it is now. A projector without its model is no
    reason to stay."""
    gone = {model.path for model in models}
    now = local_models(Places((("huggingface", folder),), bundled=False))
    return [model for model in now if model.path not in gone]


def _named(text: str, every: Sequence[LocalModel]) -> LocalModel:
    """Return the model of a name or path, a broken one too."""
    exact = [model for model in every if model.name == text.strip().lower()]
    place = os.path.normpath(expanded(text).absolute())
    by_path = [model for model in every if os.fspath(model.path) in (text, place)]
    found = exact or by_path or resolving.candidates(text, every)
    if len(found) == 1:
        return found[0]
    if found:
        raise RequestError(resolving.ambiguous(text, found))
    raise RequestError(
        f"unknown model {quote(text)}: expected a name or a part of one as "
        "`llm-lite models list` shows it"
    )


_THEIRS = {
    "lm-studio": "{name} is LM Studio's: delete it there, under My Models",
    "ollama": "{name} is Ollama's: remove it with `ollama rm` and the name in `ollama list`",
    "llama.cpp": "{name} is llama.cpp's, which has no command for it: delete {path} yourself",
    "bundled": "{name} is part of a Python package: remove it with `pip uninstall {package}`",
}


def _check_ours(model: LocalModel) -> None:
    sentence = _THEIRS.get(model.origin)
    if sentence is not None:
        raise RequestError(
            sentence.format(
                name=model.name,
                path=model.path,
                package=bundled.package_of(model.path),
            )
        )
    if not model.files and model.origin != "imported":
        raise RequestError(f"{model.name} cannot be removed: {model.problem}")


def _frees(places: Places, chosen: Sequence[LocalModel]) -> Iterable[int]:
    ours = [model for model in chosen if model.origin == "llm-lite"]
    yield sum(_own_bytes(file) for model in ours for file in model.files)
    for folder, models in _by_cache(places, chosen):
        yield hub_cache.frees(folder, models, _kept(models, folder))


def _own_bytes(file: Path) -> int:
    """Return a file's bytes; 0 for a link, whose file stays where it is, and for one that has a
    second name."""
    try:
        status = file.lstat()
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 else 0


def _by_cache(places: Places, models: Sequence[LocalModel]) -> list[tuple[Path, list[LocalModel]]]:
    """Return the models of each Hugging Face cache."""
    found = []
    for folder in places.of("huggingface"):
        here = [m for m in models if m.origin == "huggingface" and m.path.is_relative_to(folder)]
        if here:
            found.append((folder, here))
    return found


def _notes(chosen: Sequence[LocalModel], every: Sequence[LocalModel]) -> Iterable[str]:
    names = {model.name for model in chosen}
    for model in chosen:
        if model.origin == "imported":
            yield f"{model.name} is only forgotten: its files stay in {model.path}"
    for model in every:
        if model.made_of not in names or model.name in names:
            continue
        if model.form == "slice":
            yield f"the slice {model.name} is a view of {model.made_of}: it cannot be opened then"
        else:
            yield f"{model.name} was made of {model.made_of}, and stays"


def _check_inside(model: LocalModel, places: Places) -> None:
    """Raise FileError if a link within our folder leads out of it: what lies there is none of
    ours."""
    roots = [folder.resolve() for folder in places.of("llm-lite")]
    parent = model.path.parent.resolve()
    if not any(parent.is_relative_to(root) for root in roots):
        raise FileError(model.path, f"cannot be removed: it lies in {parent}, not in our folder")


def _remove(model: LocalModel, places: Places) -> int:
    if model.origin == "imported":
        for file in places.of("imported"):
            imported.change(file, lambda paths: [path for path in paths if path != model.path])
        return 0
    if not os.path.lexists(model.path):
        return 0
    _check_inside(model, places)
    if model.form == "variant":
        return remove_folder(model.path, listed_files)
    if model.form != "gguf":
        names = [file.name for file in model.files]
        return remove_folder(model.path, lambda folder: names)
    return sum(map(remove_file, model.files))
