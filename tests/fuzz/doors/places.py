"""Folders of other programs' models, damaged: listed, measured, tidied up, and deleted from."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from llm_lite.core.errors import FileError, LlmLiteError
from llm_lite.core.hub.local.collecting import collect, leftovers
from llm_lite.core.hub.local.disk_usage import sizes
from llm_lite.core.hub.local.importing import import_model
from llm_lite.core.hub.local.listing import Places, local_models, machine_places
from llm_lite.core.hub.local.removal import delete_models, removal
from tests.core.hub.local.layouts import (
    OLDER,
    VARIABLES,
    gguf,
    hub_repository,
    ollama_model,
    put,
)
from tests.fuzz.door import Case, Door
from tests.fuzz.mutations import change_json, mutate_bytes, odd_text, special_file, to_json

PRECIOUS = b"a person's own"
# A place itself may be a link that a person has made; what lies in it leads nowhere else.
PLACES = (
    ".cache/huggingface/hub",
    ".lmstudio/models",
    ".ollama/models",
    ".cache/llama.cpp",
    ".local/share/llm-lite/models",
)
FILES = (".lmstudio/settings.json", ".local/share/llm-lite/imported-models.json")


def use(case: Case) -> None:
    rng, folder = case.rng, case.folder
    for variable in VARIABLES:
        os.environ.pop(variable, None)
    home = folder / "home"
    os.environ["HOME"] = str(home)
    precious = put(folder / "precious" / "mine.gguf", PRECIOUS)
    lay_out(home)
    for _ in range(rng.choice((1, 2, 4))):
        damage(home, precious, rng)
    places = machine_places()
    models = local_models(places, companions=True)
    names = [model.name for model in models]
    assert len(set(names)) == len(names)
    assert all(name.isprintable() and name == name.lower() and name for name in names)
    assert all("\n" not in model.problem for model in models)
    assert all(place.size >= 0 for place in sizes(places, models))
    refused = [error for work in works(places, names) if (error := refusal(work)) is not None]
    assert precious.read_bytes() == PRECIOUS
    assert isinstance(refusal(lambda: import_model(precious, places)), FileError)
    for error in refused:
        if isinstance(error, FileError):  # what is not ours to delete is none of the damage
            raise error


def works(places: Places, names: list[str]) -> Iterator[Callable[[], object]]:
    yield lambda: collect(leftovers(places), places)
    for name in names:
        yield lambda name=name: delete_models(removal([name], places=places))


def refusal(work: Callable[[], object]) -> LlmLiteError | None:
    try:
        work()
    except LlmLiteError as error:
        assert "\n" not in str(error)
        return error
    return None


@cache
def _manifest_of_v2() -> bytes:
    return json.dumps({"mediaType": "x", "manifests": [{"digest": "sha256:" + "a" * 64}]}).encode()


def lay_out(home: Path) -> None:
    hub = home / ".cache/huggingface/hub"
    hub_repository(hub, "acme/one", {"a.gguf": gguf(), "sub/b.gguf": gguf(general__name="b")})
    hub_repository(hub, "acme/one", {"a.gguf": gguf()}, OLDER, branch="older")
    checkpoint = {"config.json": b'{"model_type": "llama"}', "model.safetensors": b"x" * 90}
    hub_repository(hub, "acme/two", checkpoint)
    put(hub / "models--acme--two/blobs" / ("c" * 64 + ".incomplete"), b"half")
    put(home / ".lmstudio/models/acme/m/m.gguf", gguf())
    put(home / ".lmstudio/settings.json", b'{"downloadsFolder": "/nowhere"}')
    ollama_model(home / ".ollama/models", "registry.ollama.ai/library/tiny/1b", gguf())
    put(home / ".ollama/models/manifests-v2/registry.ollama.ai/library/v2/1b", _manifest_of_v2())
    put(home / ".cache/llama.cpp/acme_m_m.gguf", gguf())
    put(home / ".cache/llama.cpp/manifest=acme=m=latest.json", b"{}")
    data = home / ".local/share/llm-lite"
    put(data / "models/mine.gguf", gguf())
    value = {"files": {"model.safetensors": 2}, "source": {"name": "mine.gguf", "bytes": 1}}
    put(data / "models/v/variant.json", json.dumps(value).encode())
    put(data / "models/v/model.safetensors", b"xx")
    put(data / "models/cut/slice.json", b'{"source": "../mine.gguf"}')
    paths = [str(home / "gone.gguf"), str(data / "models/mine.gguf")]
    put(data / "imported-models.json", json.dumps({"version": 1, "paths": paths}).encode())


def damage(home: Path, precious: Path, rng: random.Random) -> None:
    entries = [path for place in PLACES for path in sorted((home / place).rglob("*"))]
    entries += [home / file for file in FILES if (home / file).is_file()]
    entries = entries or [put(home / FILES[0], b"")]
    path = rng.choice(entries)
    kind = rng.randrange(7)
    if path.is_symlink() or kind == 0:
        replace_by_link(path, precious, entries, rng)
    elif path.is_dir():
        damage_folder(path, rng)
    elif kind == 1:
        special_file(path, rng)
    elif kind == 2 or not path.is_file():
        path.unlink()
    elif kind == 3:
        os.truncate(path, rng.choice((0, 1, 40, 1 << 20)))
    else:
        path.write_bytes(mutated(path.read_bytes(), rng))


def replace_by_link(path: Path, precious: Path, entries: list[Path], rng: random.Random) -> None:
    """To a person's file, its folder, itself, nowhere, or anything else in the home."""
    targets = (precious, precious.parent, path, Path("nowhere"), rng.choice(entries))
    moved = path.with_name(f"{path.name[:60]}.{rng.getrandbits(32)}")
    path.rename(moved)
    path.symlink_to(rng.choice(targets))


def damage_folder(path: Path, rng: random.Random) -> None:
    try:
        if rng.random() < 0.5:
            path.rename(path.with_name(odd_text(rng)[:60].replace("/", "_") or "x"))
        else:
            put(path / (odd_text(rng)[:60].replace("/", "_") + ".gguf"), gguf())
    except (OSError, ValueError):  # no file can be called so
        path.with_name("renamed").mkdir(exist_ok=True)


def mutated(content: bytes, rng: random.Random) -> bytes:
    if content[:1] != b"{" or rng.random() < 0.2:
        return mutate_bytes(content, rng)
    value = json.loads(content)
    for _ in range(rng.choice((1, 1, 3))):
        change_json(value, rng)
    return to_json(value)


DOOR = Door("places", use)
