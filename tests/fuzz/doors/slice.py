"""Slices of a tiny Gemma 3n: what to cut, read from a JSON file; and slice.json of a view."""

from __future__ import annotations

import json
import random
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from llm_lite.core.convert.slicing import Slice, find_slice, slice_model
from tests.fuzz import whole
from tests.fuzz.door import Case, Door, Result
from tests.fuzz.doors.config import GEMMA
from tests.fuzz.mutations import INTEGERS, TEXTS, change_json, mutate_bytes, special_file, to_json
from tests.make_huggingface import SLICE_SOURCE, gemma3n_tensors, write_folder

CONFIG = {**GEMMA, **SLICE_SOURCE, "intermediate_size": 12}
_CUTS: tuple[dict[str, Any], ...] = (
    {"skip": [1, 6, 7], "feed_forward": [9, 12, 5, 4, 1, 12, 12]},
    {"skip": [], "feed_forward": 12},
    {"skip": [8, 9], "feed_forward": 5},
)
_PATHS = (
    "",
    ".",
    "..",
    "../view",
    "../source/config.json",
    "/dev/null",
    "../source/.",
    "a\x00b",
    "~",
)


@cache
def material() -> Path:
    place = Path.cwd() / "tmp"
    write_folder(place / "source", CONFIG, gemma3n_tensors(CONFIG))
    slice_model(place / "source", place / "view", Slice((1, 6), 9), view=True)
    return place


def use(case: Case) -> Result:
    rng, folder = case.rng, case.folder
    shutil.copytree(material() / "source", folder / "source")
    if rng.random() < 0.6:
        path = folder / "cut.json"
        path.write_bytes(mutated(dict(rng.choice(_CUTS)), rng))
        if rng.random() < 0.02:
            special_file(path, rng)
        cut = find_slice(str(path))
        slice_model(folder / "source", folder / "cut", cut, view=rng.random() < 0.4)
        return whole.run(folder / "cut", rng)
    shutil.copytree(material() / "view", folder / "view")
    change_view(folder, rng)
    return whole.run(folder / "view", rng)


def change_view(folder: Path, rng: random.Random) -> None:
    path = folder / "view" / "slice.json"
    value = json.loads(path.read_text())
    choice = rng.random()
    if choice < 0.15:
        value["source"] = rng.choice((*_PATHS, *TEXTS))
    elif choice < 0.2:
        (folder / "source" / "slice.json").write_bytes(to_json(value))
    elif choice < 0.25:
        (folder / "source" / "config.json").write_bytes(b"{}")
    path.write_bytes(mutated(value, rng))
    if choice > 0.98:
        special_file(path, rng)


def mutated(value: dict[str, Any], rng: random.Random) -> bytes:
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice((0, 1, 1, 2))):
        if rng.random() < 0.5:
            key = rng.choice(("skip", "feed_forward"))
            few = [rng.choice(INTEGERS) for _ in range(rng.choice((0, 1, 7, 10)))]
            value[key] = rng.choice((few, rng.choice(INTEGERS), [3, 3], list(range(10))))
        else:
            change_json(value, rng)
    raw = to_json(value)
    return mutate_bytes(raw, rng) if rng.random() < 0.1 else raw


def prepare() -> None:
    whole.prepare()
    material()


DOOR = Door("slice", use, prepare)
