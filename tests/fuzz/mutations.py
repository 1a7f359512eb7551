"""Changes of bytes and of JSON, and the odd values that they put in."""

from __future__ import annotations

import copy
import json
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

EDGES = (0, 1, 2, 7, 8, 9, 31, 32, 33, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**60, 2**63, 2**64 - 1)
INTEGERS = (
    *(0, 1, -1, 2, 3, 7, 8, 16, 31, 63, 64, 65, 128, 255, 300, 4096, 4097, 1 << 16, 1 << 24),
    *((1 << 24) + 1, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53 + 1, 2**62, 2**63, 2**64, -(2**63)),
    *(10**40, -(10**40)),
)
FLOATS = (0.0, -0.0, 0.5, -1.0, 1e-300, 1e-45, 1e-9, 0.999, 1e4, 1e30, 3e38, 1e39, 1e300, -1e308)
TEXTS = (
    *(
        "",
        " ",
        "\x00",
        "a\x00b",
        "\n",
        "\x1b[2J\x1b[H",
        "\x07\r",
        "\u202egnp.exe",
        "\ud800",
        "\udcff",
    ),
    *(
        "\U0010ffff",
        "\ufdd0",
        "\ufeff",
        "e\u0301",
        "한국어",
        "👩‍👩‍👧",
        "ﷺ",
        "İ",
        "ß" * 50,
        "a" * 3000,
    ),
    *("../../etc/passwd", "/", "~", "~nobody-here/x", "C:\\x", ".", "..", "%s%n", "{0}", "{{ x }}"),
    *("<|im_end|>", "<|im_start|>system\n", "</s>", "<0x0A>", "▁", "true", "null", "-inf", "nan"),
)
VALUES: tuple[Any, ...] = (*INTEGERS, *FLOATS, *TEXTS, True, False, None)
LISTS: tuple[Any, ...] = ([], [0], [None], [[]], [""], [1, "a"], [1.5] * 7, [-1] * 3, [0, 8])
_NUMBERS = {  # that Python's own writer cannot write, or no float holds
    "a number of 400 digits": "9" * 400,
    "a number of 5000 digits": "-" + "9" * 5000,
    "a number that overflows": "1e999",
    "NaN as a number": "NaN",
    "infinity as a number": "-Infinity",
}
_DEEP = ("deep 40 lists", "deep 900 objects", "deep 20000 lists", "deep 100000 objects")
OBJECTS: tuple[Any, ...] = ({}, {"": 0}, {"a": {"b": {}}}, {"content": 5}, {"type": "x"})


def odd_value(rng: random.Random) -> Any:
    kind = rng.random()
    if kind < 0.75:
        return rng.choice(VALUES)
    if kind < 0.9:
        return copy.deepcopy(rng.choice(LISTS if kind < 0.83 else OBJECTS))
    return rng.choice(_DEEP if kind < 0.95 else tuple(_NUMBERS))


def to_json(value: Any) -> bytes:
    """As JSON; marks become what they stand for, which Python's own writer can not write."""
    text = json.dumps(value)
    for mark, digits in _NUMBERS.items():
        text = text.replace(f'"{mark}"', digits)
    for mark in _DEEP:
        if f'"{mark}"' in text:
            opening, depth = ("[", "]") if "lists" in mark else ('{"a":', "}"), int(mark.split()[1])
            text = text.replace(f'"{mark}"', opening[0] * depth + "0" + opening[1] * depth)
    return text.encode()


def special_file(path: Path, rng: random.Random) -> None:
    """Something else in a file's place: nothing, a folder, a pipe, a broken link, far too much."""
    if path.exists():
        path.unlink()
    match rng.choice(("nothing", "folder", "pipe", "link", "loop", "empty", "zeros", "device")):
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to("nowhere")
        case "loop":
            path.symlink_to(path.name)
        case "empty":
            path.touch()
        case "zeros":
            path.touch()
            os.truncate(path, 48 << 20)
        case "device":
            path.symlink_to("/dev/zero")


def odd_text(rng: random.Random) -> str:
    """A few pieces of text, odd ones among them."""
    pieces = (rng.choice(TEXTS) if rng.random() < 0.4 else _letters(rng) for _ in range(4))
    return "".join(list(pieces)[: rng.randint(1, 4)])


def _letters(rng: random.Random) -> str:
    highest = rng.choice((0x7F, 0x7F, 0x24F, 0x4FFF, 0x10FFFF))
    return "".join(chr(rng.randint(0, highest)) for _ in range(rng.randint(0, 12)))


def change_json(
    value: Any, rng: random.Random, odd: Callable[[random.Random], Any] = odd_value
) -> None:
    """Replace, add, remove or copy something somewhere inside an object or a list."""
    places = _places(value)
    if not places:
        return
    node, key = rng.choice(places)
    choice = rng.random()
    if choice < 0.15:
        del node[key]
    elif choice < 0.3 and type(node[key]) is int:
        node[key] += rng.choice((-32, -1, 1, 4, 32))
    elif choice < 0.4:
        other, there = rng.choice(places)
        node[key] = copy.deepcopy(other[there])
    elif choice < 0.5 and isinstance(node, dict):
        node[rng.choice((f"{key} ", str(key).upper(), rng.choice(TEXTS)))] = node[key]
    elif choice < 0.55 and isinstance(node, list):
        node.insert(rng.randint(0, len(node)), copy.deepcopy(node[key]))
    elif choice < 0.6 and isinstance(node[key], str):
        node[key] += odd_text(rng)
    else:
        node[key] = odd(rng)


def _places(value: Any, most: int = 400) -> list[tuple[Any, Any]]:
    """(object or list, key) of what lies in it, those near the root first."""
    found: list[tuple[Any, Any]] = []
    nodes = [value]
    while nodes and len(found) < most:
        node = nodes.pop(0)
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, child in list(items)[:60]:
            found.append((node, key))
            if isinstance(child, dict | list):
                nodes.append(child)
    return found


def mutate_bytes(raw: bytes, rng: random.Random) -> bytes:
    """One to four random changes."""
    data = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        rng.choice(_MUTATIONS)(data, rng)
    return bytes(data)


def _flip_bit(data: bytearray, rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set_byte(data: bytearray, rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice((0, 1, 8, 9, 0x7F, 0x80, 0xFF))


def _plant_number(data: bytearray, rng: random.Random) -> None:
    """Write an edge value over 4 or 8 bytes, as a count, length, type or offset."""
    width, code = rng.choice(((4, "<I"), (8, "<Q")))
    if len(data) >= width:
        at = rng.randrange(len(data) - width + 1)
        data[at : at + width] = struct.pack(code, rng.choice(EDGES) % (1 << 8 * width))


def _nudge_number(data: bytearray, rng: random.Random) -> None:
    if len(data) >= 8:
        at = rng.randrange(len(data) - 7)
        number = int.from_bytes(data[at : at + 8], "little") + rng.choice((-32, -1, 1, 32))
        data[at : at + 8] = (number % 2**64).to_bytes(8, "little")


def _truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.randint(0, len(data)) :]


def _delete(data: bytearray, rng: random.Random) -> None:
    at = rng.randint(0, len(data))
    del data[at : at + rng.randint(1, 16)]


def _insert(data: bytearray, rng: random.Random) -> None:
    at = rng.randint(0, len(data))
    data[at:at] = rng.randbytes(rng.randint(1, 16))


def _copy_piece(data: bytearray, rng: random.Random) -> None:
    source, at = rng.randint(0, len(data)), rng.randint(0, len(data))
    piece = data[source : source + rng.randint(1, 64)]
    data[at : at + len(piece)] = piece


_MUTATIONS: tuple[Callable[[bytearray, random.Random], None], ...] = (
    *(_flip_bit, _set_byte, _plant_number, _plant_number, _nudge_number),
    *(_truncate, _delete, _insert, _copy_piece),
)
