"""Files that were made to hurt whoever opens them, each of its own sort.

    python -m tests.fuzz.hostile_files FOLDER

`make` writes them into a folder: small models with templates and tokenizers that take for ever or
panic, names that forge, headers that lie, and what is no file at all.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests import make_huggingface
from tests.make_gguf import TinyLlama, build_gguf, llama_metadata, llama_tensors, quantized

MIB = 1 << 20
SIZE = TinyLlama(seed=2)
TEMPLATES = {
    "round": "{{ 1|round(-10**9) }}",
    "range": "{% for i in range(10**9) %}x{% endfor %}",
    "power": "{{ 9**9**9 }}",
    "multiplied": "{{ 'a' * 10**10 }}",
    "rfind": "{% set a = 'ab' * 500000 %}{% for i in range(1000) %}"
    "{{ a.rfind('ba' * 250000 ~ 'c') }}{% endfor %}",
    "trim": "{% for i in range(1000) %}{{ ('a' * 1000000)|trim('b' * 1000000 ~ 'a') }}{% endfor %}",
    "slices": "{% set a = 'x' * 1000000 %}{% set n = namespace(l=[]) %}"
    "{% for i in range(3000) %}{% set n.l = n.l + [a[1:]] %}{% endfor %}",
    "raises": "{{ raise_exception('\x1b[2J\x1b[Hforged\nllm-lite: all is well\u202e') }}",
    "compiled": "{{ a.b.c }}" * 20_000,
    "nested": "{% if a %}" * 400 + "{% endif %}" * 400,
}
TOKENIZERS: dict[str, dict[str, Any]] = {
    "prepend": {"normalizer": {"type": "Prepend", "prepend": ""}},
    "fixed-length": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
    "empty-regex": {
        "pre_tokenizer": {
            "type": "Split", "pattern": {"Regex": ""}, "behavior": "Isolated", "invert": False,
        }
    },
    "unknown-token": {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "nobody", "type_id": 0}}],
            "pair": [],
            "special_tokens": {},
        }
    },
    "slow-regex": {
        "pre_tokenizer": {
            "type": "Split", "pattern": {"Regex": "(?:a+)+$|(x+x+)+y"}, "behavior": "Isolated",
            "invert": False,
        }
    },
    "surrogate": {"version": "\ud800"},
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "vocabulary": {"vocab_size": 10**18},
    "layers": {"num_hidden_layers": -1},
    "many-layers": {"num_hidden_layers": 10**9},
    "nan": {"rope_theta": float("nan")},
    "infinite": {"rms_norm_eps": 1e308, "max_position_embeddings": 10**30},
    "text": {"hidden_size": "\x1b[2J\ud800"},
    "context": {"max_position_embeddings": 2**40},
}


@dataclass(frozen=True)
class Hostile:
    """`path` is what is opened; `during` is what happens to it a moment later."""

    name: str
    path: Path
    during: Callable[[], None] | None = None
    talks: bool = False  # what is wrong with it is met when it is asked something


def make(folder: Path) -> list[Hostile]:
    """All of them, in `folder`, which is there and empty."""
    return [*_templates(folder), *_tokenizers(folder), *_configs(folder), *_names(folder),
            *_weights(folder), *_headers(folder), *_no_files(folder)]  # fmt: skip


def _gguf(path: Path, *, tensors: Any = None, **metadata: object) -> Path:
    known = llama_metadata(SIZE) | {key.replace("__", "."): v for key, v in metadata.items()}
    _write(path, build_gguf(known, tensors or llama_tensors(SIZE)))
    return path


def _write(path: Path, raw: bytes) -> Path:
    """By the operating system's own names, which need not be UTF-8."""
    with open(os.fsencode(path), "wb") as file:  # noqa: PTH123
        file.write(raw)
    return path


def _templates(folder: Path) -> Iterator[Hostile]:
    for name, text in TEMPLATES.items():
        path = _gguf(folder / f"template-{name}.gguf", tokenizer__chat_template=text)
        yield Hostile(f"template: {name}", path, talks=True)


def _tokenizers(folder: Path) -> Iterator[Hostile]:
    for name, changes in TOKENIZERS.items():
        path = make_huggingface.write_tiny_llama(folder / f"tokenizer-{name}")
        file = path / "tokenizer.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))
        yield Hostile(f"tokenizer: {name}", path / "config.json", talks=True)


def _configs(folder: Path) -> Iterator[Hostile]:
    for name, changes in CONFIGS.items():
        path = make_huggingface.write_tiny_llama(folder / f"config-{name}")
        file = path / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))
        yield Hostile(f"config: {name}", file)


def _names(folder: Path) -> Iterator[Hostile]:
    forged = "\x1b[2Jforged\r\nllm-lite: all is well\u202e"
    yield Hostile("name: escapes", _gguf(folder / "escapes.gguf", general__name=forged))
    yield Hostile(
        "name: no UTF-8", _gguf(folder / "no-utf-8.gguf", general__name=b"caf\xe9 \xed\xa0\x80")
    )
    yield Hostile("name: 1 MB", _gguf(folder / "long.gguf", general__name="long " * 200_000))
    tokens = llama_metadata(SIZE)["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    odd = [*tokens[:270], *(f"\x1b[2J\u202e{n}".encode() + b"\xff\xed\xa0\x80" for n in range(30))]
    yield Hostile(
        "tokens: no UTF-8", _gguf(folder / "tokens.gguf", tokenizer__ggml__tokens=odd), talks=True
    )
    huge = [*tokens[:290], *("x" * (MIB + n) for n in range(10))]
    yield Hostile(
        "tokens: 1 MB", _gguf(folder / "huge.gguf", tokenizer__ggml__tokens=huge), talks=True
    )
    raw = Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9\xff.gguf"))
    yield Hostile("path: no UTF-8", _gguf(raw))
    yield Hostile("path: line break", _gguf(folder / "a\nb\x1b[2J.gguf"))
    missing = Path(os.fsdecode(os.fsencode(folder) + b"/missing\xff.gguf"))
    yield Hostile("path: missing", missing)


def _weights(folder: Path) -> Iterator[Hostile]:
    for name, value in (("nan", np.nan), ("huge", 3e38)):
        values = llama_tensors(replace(SIZE, dtype="f32"))
        rows = np.full(values["output_norm.weight"].shape, value, np.float32)
        values["output_norm.weight"] = quantized("f32", rows)
        yield Hostile(
            f"weights: {name}", _gguf(folder / f"weights-{name}.gguf", tensors=values), talks=True
        )


def _headers(folder: Path) -> Iterator[Hostile]:
    whole = build_gguf(llama_metadata(SIZE), llama_tensors(SIZE))
    yield Hostile("header: empty", _write(folder / "empty.gguf", b""))
    yield Hostile("header: truncated", _write(folder / "half.gguf", whole[: len(whole) // 2]))
    counts = whole[:8] + (1 << 60).to_bytes(8, "little") * 2 + whole[24:]
    yield Hostile("header: huge counts", _write(folder / "counts.gguf", counts))
    size = replace(SIZE, width=256, ffn=1024, layers=4)
    large = folder / "shrinks.gguf"
    _write(large, build_gguf(llama_metadata(size), llama_tensors(size)))
    half = large.stat().st_size // 2
    yield Hostile("file: shrinks", large, lambda: os.truncate(large, half), talks=True)


def _no_files(folder: Path) -> Iterator[Hostile]:
    fifo = folder / "fifo.gguf"
    os.mkfifo(fifo)
    yield Hostile("no file: FIFO", fifo)
    device = folder / "zero.gguf"
    device.symlink_to("/dev/zero")
    yield Hostile("no file: device", device)
    loop = folder / "loop.gguf"
    loop.symlink_to(loop)
    yield Hostile("no file: link to itself", loop)
    circle = make_huggingface.write_tiny_llama(folder / "circle")
    (circle / "inner").symlink_to(circle)
    (circle / "model.safetensors").unlink(missing_ok=True)
    (circle / "model.safetensors").symlink_to(circle / "inner" / "model.safetensors")
    yield Hostile("no file: folder in a circle", circle / "config.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True)
    for hostile in make(folder):
        print(f"{hostile.name:28} {str(hostile.path)!r}")


if __name__ == "__main__":
    main()
