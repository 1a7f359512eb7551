"""Every number of every family's config.json in turn: none, one, one more or less, half, double,
and more than anything has; and tensors without a value.

A case has one change, so that what checks between fields leave open is found by its name.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.description.rows import rows_of
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import MODEL_TYPES, architecture_of, complete, read_model
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.records import replace
from tests import encoder_checks, family_checks, seq2seq_checks
from tests.encoder_families import family_of as encoder_family
from tests.families import family_of
from tests.fixtures.seq2seq import bart, marian, t5
from tests.fuzz import whole
from tests.fuzz.door import Case, Door, Result
from tests.fuzz.doors.families import embed, translate
from tests.fuzz.mutations import to_json
from tests.make_safetensors import build_safetensors, read_entries

Use = Callable[[Path, random.Random], Result]
Change = tuple[str, str, Any]  # a family's case, "a.b.0" in its config or a tensor's name, a value
_TENSOR = "tensor "
# Of fields that a config has not.
_LEFT_OUT: tuple[Any, ...] = (
    0,
    1,
    2,
    3,
    10,
    16,
    0.5,
    True,
    [],
    1 << 31,
)
_BUILD = BuildOptions(16, "f32", "f32", "f32", False, (Bucket(1, 1), Bucket(4, 4)), 16)
_CASES = 2  # of a family
_FAR = (1 << 12, 1 << 31, 1 << 62)


@cache
def cases() -> dict[str, tuple[Callable[[Path], Path], Use]]:
    """By name what writes a directory, and what is done with it."""
    made: dict[str, tuple[Callable[[Path], Path], Use]] = {}
    for name in family_checks.NAMES:
        family = family_of(name)
        for case in list(family.cases)[:_CASES]:
            made[f"{name} {case}"] = (_writer(family_checks.write_case, family, case), whole.run)
    for name, case in (
        *(("bert", "masked"), ("roberta", "masked"), ("distilbert", "masked")),
        ("embedding_gemma", "windows"),
    ):
        family = encoder_family(name)
        if case not in family.cases:
            case = next(iter(family.cases))
        made[f"{name} {case}"] = (_writer(encoder_checks.write_case, family, case), embed)
    for name, module in (("t5", t5), ("marian", marian), ("bart", bart)):
        for case in module.FAMILY.cases:
            write = _writer(seq2seq_checks.write_case, module.FAMILY, case)
            made[f"{name} {case}"] = (write, translate)
    return made


def _writer(write: Callable[..., Path], family: Any, case: str) -> Callable[[Path], Path]:
    return lambda folder: write(family, case, folder)


@cache
def folder_of(name: str) -> Path:
    place = Path.cwd() / "tmp" / name.replace(" ", "-")
    place.parent.mkdir(exist_ok=True)
    return place if place.is_dir() else cases()[name][0](place)


def numbers_in(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """The places of numbers in a config, of lists their first and last, and their values."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers_in(inner, f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        for index in sorted({0, len(value) - 1}) if value else ():
            yield from numbers_in(value[index], f"{at}.{index}")
    elif type(value) in (int, float):
        yield at, value


def values_for(value: Any) -> tuple[Any, ...]:
    if isinstance(value, float):
        return (0.0, -1.0, 1.0, 2 * value, 1e-30, 1e30)
    near = (0, 1, 2, 3, 7, value - 1, value + 1, value // 2, 2 * value, -1, *_FAR)
    return tuple(dict.fromkeys(one for one in near if one != value))


@cache
def changes(name: str) -> tuple[Change, ...]:
    """All changes of a case, each number's and each tensor's of a kind."""
    folder = folder_of(name)
    config = json.loads((folder / "config.json").read_text())
    found: list[Change] = [
        (name, at, other) for at, value in numbers_in(config) for other in values_for(value)
    ]
    rows = rows_of(MODEL_TYPES[config["model_type"]].config).values()
    read = {row.checkpoint for row in rows if isinstance(row.checkpoint, str)}
    found += [(name, key, value) for key in sorted(read - config.keys()) for value in _LEFT_OUT]
    kinds: dict[tuple[str, ...], tuple[str, tuple[int, ...]]] = {}
    for tensor, (_, shape, _) in read_entries(folder / "model.safetensors").items():
        kinds[tuple(part for part in tensor.split(".") if not part.isdigit())] = tensor, shape
    for tensor, shape in kinds.values():
        for axis in range(len(shape)):
            found.append((name, _TENSOR + tensor, axis))
    return tuple(found)


def all_changes() -> tuple[Change, ...]:
    return tuple(change for name in cases() for change in changes(name))


def write(change: Change, folder: Path) -> Path:
    name, at, value = change
    shutil.copytree(folder_of(name), folder)
    if at.startswith(_TENSOR):
        _empty(folder / "model.safetensors", at.removeprefix(_TENSOR), value)
        return folder
    path = folder / "config.json"
    config = json.loads(path.read_text())
    *way, last = at.split(".")
    inner = config
    for key in way:
        inner = inner[int(key) if isinstance(inner, list) else key]
    inner[int(last) if isinstance(inner, list) else last] = value
    path.write_bytes(to_json(config))
    return folder


def _empty(path: Path, tensor: str, axis: int) -> None:
    entries = read_entries(path)
    dtype, shape, _ = entries[tensor]
    entries[tensor] = dtype, (*shape[:axis], 0, *shape[axis + 1 :]), b""
    path.write_bytes(build_safetensors(entries))


def fields(name: str) -> Iterator[tuple[str, Any]]:
    """The fields of a case in GGUF's terms, those that it has and those that it could, with other
    values."""
    source = open_source(folder_of(name))
    architecture = architecture_of(source.metadata, source.path)
    keys = [row.key(f"{architecture.gguf}.") for row in rows_of(architecture.config).values()]
    for key in dict.fromkeys((*source.metadata, *keys)):
        if not key.startswith("general."):
            yield from ((key, value) for value in _others(source.metadata.get(key)))


def _others(value: Any) -> tuple[Any, ...]:
    if isinstance(value, list):
        first, last = value[:-1], value[1:]
        ends = [[*first, one] for one in (0, 1, 7, True, False)]
        whole = [[one] * len(value) for one in (0, 1, True, False)]
        return (*whole, *ends, [0, *last], first, [*value, value[0]], [], 1)
    if type(value) in (int, float):
        return values_for(value)
    return _LEFT_OUT if value is None else (0, 1, True, False, "x")


def built(name: str, key: str, value: Any) -> None:
    """Read a model with another field, and build its programs."""
    source = open_source(folder_of(name))
    metadata = {**source.metadata, key: value}
    tensors = complete(metadata, source.tensors, source.path)
    model = read_model(metadata, tensors, source.path)
    options = replace(_BUILD, source=0 if model.encoder is None else _BUILD.context)
    for one in (model, model.encoder):
        if one is not None:
            one.build(options)


def use(case: Case) -> Result:
    name = case.rng.choice(tuple(cases()))
    if case.rng.random() < 0.5:
        built(name, *case.rng.choice(tuple(fields(name))))
        return Result()
    change = case.rng.choice(changes(name))
    return tried(change, case.folder / "m", case.rng)


def tried(change: Change, folder: Path, rng: random.Random) -> Result:
    return cases()[change[0]][1](write(change, folder), rng)


def prepare() -> None:
    whole.prepare()
    for name in cases():
        folder_of(name)


DOOR = Door("numbers", use, prepare)
