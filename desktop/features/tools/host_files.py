"""The declared functions and tool servers as a file in the data folder, read as untrusted."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import found, read_bytes, read_object
from llm_lite.core.files.places import user_folder
from llm_lite.core.files.writing import make_folder, write_file
from llm_lite.core.messages import ServerSpec
from llm_lite.core.plain_text import one_line
from llm_lite.core.tools.declared import NAME, NAME_RULE
from llm_lite.core.tools.json_values import MOST_CHARS
from llm_lite.desktop.features.tools.state import (
    LONGEST_DECLARED,
    MOST_SERVERS,
    MOST_VARIABLES,
)
from llm_lite.desktop.language.incoming import typed

LARGEST_FILE = 4 << 20  # bytes
LONGEST_COMMAND = 4096  # characters
LONGEST_SECONDS = 3600.0


def tools_file() -> Path:
    return user_folder("data") / "tools.json"


def write(path: Path, text: str, servers: tuple[ServerSpec, ...]) -> None:
    """For its owner alone: the environment of a server may hold a key. FileError."""
    kept = [
        {
            "name": s.name,
            "command": s.command,
            "environment": dict(s.environment),
            "start_seconds": s.start_seconds,
            "call_seconds": s.call_seconds,
        }
        for s in servers
    ]
    make_folder(path.parent)
    with suppress(OSError):  # one that is there keeps its mode
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    data = json.dumps({"functions": text, "servers": kept}, ensure_ascii=False, indent=2)
    write_file(path, data.encode(errors="backslashreplace"))


def read(path: Path) -> tuple[str, tuple[ServerSpec, ...]]:
    """Nothing where there is no file. FileError that names the field."""
    try:
        if path.stat().st_size == 0:
            return "", ()
    except FileNotFoundError:
        return "", ()
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror}") from None
    data = read_object(path, limit=LARGEST_FILE)
    text, servers = data.get("functions", ""), data.get("servers", [])
    if not isinstance(text, str) or len(text) > LONGEST_DECLARED:
        raise FileError(path, f"functions: expected a text of at most {MOST_CHARS} characters")
    if not isinstance(servers, list) or len(servers) > MOST_SERVERS:
        raise FileError(path, f"servers: expected a list of at most {MOST_SERVERS}")
    specs: dict[str, ServerSpec] = {}
    for number, item in enumerate(servers, 1):
        spec = _server(path, item, f"servers, {number}")
        specs[spec.name] = spec
    return typed(text), tuple(specs.values())


def _server(path: Path, item: Any, where: str) -> ServerSpec:
    if not isinstance(item, dict):
        raise FileError(path, f"{where}: expected an object, found {found(item)}")
    name, command = item.get("name"), item.get("command")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise FileError(path, f"{where}, name: expected {NAME_RULE}, found {found(name)}")
    if not isinstance(command, str) or len(command) > LONGEST_COMMAND:
        expected = f"a text of at most {LONGEST_COMMAND} characters"
        raise FileError(path, f"{where}, command: expected {expected}, found {found(command)}")
    variables = item.get("environment", {})
    if not isinstance(variables, dict) or not all(isinstance(v, str) for v in variables.values()):
        raise FileError(path, f"{where}, environment: expected an object of texts")
    seconds = []
    for field, usual in (("start_seconds", 10.0), ("call_seconds", 30.0)):
        value = item.get(field, usual)
        if type(value) not in (int, float) or not 0.1 <= value <= LONGEST_SECONDS:
            expected = f"0.1 to {LONGEST_SECONDS:g}"
            raise FileError(path, f"{where}, {field}: expected {expected}, found {found(value)}")
        seconds.append(float(value))
    environment = tuple(list(variables.items())[:MOST_VARIABLES])
    return ServerSpec(name, one_line(command), environment, *seconds)


def read_functions_file(path: Path) -> str:
    """What a person imports, to be read as what is typed. FileError."""
    raw = read_bytes(path, MOST_CHARS)
    try:
        return typed(raw.decode())
    except UnicodeDecodeError as error:
        raise FileError(path, f"is not valid UTF-8 at byte {error.start}") from None
