"""Saved caches: headers, rows, recurrent states and checksums changed; opened on a model that then
goes on."""

from __future__ import annotations

import json
import random
import struct
import zlib
from functools import cache
from pathlib import Path

from llm_lite.core.engine.hosting import cache_transfer
from llm_lite.core.generation.steps import generate
from llm_lite.core.kv_cache import on_disk
from llm_lite.core.loading import loader
from llm_lite.core.loading.runner import Runner
from tests.families import family_of
from tests.family_checks import write_case
from tests.fuzz import whole
from tests.fuzz.door import Case, Door, Result
from tests.fuzz.mutations import change_json, mutate_bytes, special_file, to_json
from tests.make_gguf import write_tiny_llama

_START = struct.Struct("<8sQ")


@cache
def saved() -> tuple[tuple[Runner, bytes], ...]:
    """Models that run, of attention alone and with recurrent states, and the bytes of a cache that
    each saved."""
    place = Path.cwd() / "tmp"
    llama = write_tiny_llama(
        place / "x.gguf", layers=1, width=32, heads=2, kv_heads=1, ffn=32, vocab=264
    )
    recurrent = write_case(family_of("qwen3_5"), "plain", place / "recurrent")
    return _saved(llama, place / "chat.kv"), _saved(recurrent, place / "recurrent.kv")


def _saved(model: Path, path: Path) -> tuple[Runner, bytes]:
    file = loader.open_model(str(model), lambda *_: None, print)
    runner = loader.start(file, whole.EXACT, None, lambda *_: None)
    runner.session.prefill(list(range(12)))
    runner.session.prefill(list(range(20)))
    cache_transfer.save(runner, path)
    return runner, path.read_bytes()


def use(case: Case) -> Result:
    runner, raw = saved()[case.rng.random() < 0.5]
    path = case.folder / "chat.kv"
    path.write_bytes(mutated(raw, case.rng))
    if case.rng.random() < 0.01:
        special_file(path, case.rng)
    session = runner.session
    session.clear()
    count = cache_transfer.open_saved(runner, path)
    assert 0 < count <= session.context
    prompt = [*session.tokens(), 5] if case.rng.random() < 0.7 else [7, 8]
    choices = list(generate(session, prompt, whole.GREEDY, frozenset()))
    return Result([[choice.probability for choice in choices]])


def mutated(raw: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        return mutate_bytes(raw, rng)
    length = _START.unpack(raw[: _START.size])[1]
    header, rows = json.loads(raw[_START.size :][:length]), raw[_START.size + length : -4]
    if rng.random() < 0.7:
        for _ in range(rng.choice((1, 1, 2))):
            change_json(header, rng)
    else:
        rows = mutate_bytes(rows, rng) if rng.random() < 0.5 else rng.randbytes(len(rows))
    text = to_json(header)
    text += b" " * (-(len(text) + _START.size) % 64)
    check = zlib.crc32(rows) if rng.random() < 0.9 else rng.getrandbits(32)
    return _START.pack(on_disk.MAGIC, len(text)) + text + rows + struct.pack("<I", check)


def prepare() -> None:
    whole.prepare()
    saved()


DOOR = Door("cache", use, prepare)
