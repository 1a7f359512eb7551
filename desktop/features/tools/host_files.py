"""The declared functions and tool servers as a file in the data folder, read as untrusted."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from llm_lite.core.checked import convert_in_file
from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import read_bytes, read_object
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


_Seconds = Annotated[float, Meta(ge=0.1, le=3600)]


class _Server(Struct):
    name: Annotated[str, Meta(pattern=rf"^{NAME.pattern}\Z", extra={"expected": NAME_RULE})]
    command: Annotated[str, Meta(max_length=4096)]
    environment: dict[str, str] = {}
    start_seconds: _Seconds = 10.0
    call_seconds: _Seconds = 30.0

    def spec(self) -> ServerSpec:
        variables = tuple(list(self.environment.items())[:MOST_VARIABLES])
        command = one_line(self.command)
        return ServerSpec(self.name, command, variables, self.start_seconds, self.call_seconds)


class _ToolsFile(Struct):
    functions: Annotated[str, Meta(max_length=LONGEST_DECLARED)] = ""
    servers: Annotated[tuple[_Server, ...], Meta(max_length=MOST_SERVERS)] = ()


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
    kept = convert_in_file(data, _ToolsFile, path)
    specs = {server.name: server.spec() for server in kept.servers}
    return typed(kept.functions), tuple(specs.values())


def read_functions_file(path: Path) -> str:
    """What a person imports, to be read as what is typed. FileError."""
    raw = read_bytes(path, MOST_CHARS)
    try:
        return typed(raw.decode())
    except UnicodeDecodeError as error:
        raise FileError(path, f"is not valid UTF-8 at byte {error.start}") from None
