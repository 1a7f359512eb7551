"""Clients of OpenAI's protocol do one turn with a call of a function (make conformance).

python -m tools.cross.conformance [CLIENT ...] [--folder build/conformance] [--record]

Each is unchanged, installed by its name and version into an environment of its own, and asks a
server whose service is scripted: no small model calls as reliably as a test needs. `--record` keeps
the form of what they send in tests/server/clients: names, types and lengths, but no texts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from llm_lite.core.messages import AnswerRequest
from llm_lite.server import call
from llm_lite.server.config import ServerConfig
from llm_lite.server.serve import Server
from tests.paths import ROOT
from tests.server.recorded import Recorded, form_of, write
from tests.server.scripted_service import ScriptedService

FOLDER = ROOT / "build" / "conformance"
SCRIPTS = Path(__file__).with_name("clients")
ANSWER = "It rains in Seoul."
EDITED = 'print("rain")'
_SECONDS = 300.0  # for a client's turn; of which most is its start
_CALLS: dict[str, Any] = {  # arguments of functions that clients offer
    "get_weather": {"city": "Seoul"},
    "exec_command": {"cmd": "echo rain"},
    "shell": {"command": ["echo", "rain"]},
    "shell_command": {"command": "echo rain"},
    "bash": {"command": "echo rain", "description": "Say it"},
}


class Client(Struct, frozen=True):
    """A row: `words` is the command, whose first word is a program of the environment, run in a
    folder of `files`. `proves` says what shows that the turn was done, beside the answer in its
    output."""

    name: str
    installer: str  # pip or npm
    packages: tuple[str, ...]
    words: tuple[str, ...]
    files: tuple[tuple[str, str], ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    proves: Callable[[Path], bool] | None = None
    of: str = ""  # the client whose environment it uses, where that is another row's


def _python(name: str, *packages: str) -> Client:
    return Client(name, "pip", packages, ("python", str(SCRIPTS / f"with_{name}.py")))


_OPENCODE = {
    "$schema": "https://opencode.ai/config.json",
    "share": "disabled",
    "autoupdate": False,
    "permission": {"bash": "allow"},
    "provider": {
        "local": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "BASE_URL", "apiKey": "none"},
            "models": {"local": {"name": "local", "tool_call": True}},
        }
    },
}
_CODEX = """model = "local"
model_provider = "local"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.local]
name = "local"
base_url = "BASE_URL"
wire_api = "responses"
"""
_CODEX_AT = ("@openai/codex@0.171.0",)
_CODEX_WORDS = ("codex", "exec", "--skip-git-repo-check", "What is the weather in Seoul?")
_CODEX_MCP = f"""[mcp_servers.weather]
command = {json.dumps(sys.executable)}
args = ["weather_server.py"]
required = true
startup_timeout_sec = 60
default_tools_approval_mode = "approve"
"""
_MCP = """import sys
from pathlib import Path
from mcp.server.mcpserver import MCPServer

server = MCPServer("weather")


@server.tool()
def get_weather(city: str) -> str:
    Path("asked").write_text(city)
    return "rain"


server.run()
"""
_LLM = """- model_id: local
  model_name: local
  api_base: BASE_URL
  api_key: none
  supports_tools: true
"""
_LLM_TOOL = (
    'def get_weather(city: str) -> str:\n    "Tell the weather of a city."\n    return "rain"\n'
)
CLIENTS = (
    _python("openai", "openai==3.57.0"),
    _python("langchain", "langchain-openai==1.7.4"),
    _python("agents", "openai-agents==0.24.0"),
    Client(
        "llm",
        "pip",
        ("llm==0.36",),
        ("llm", "-m", "local", "--functions", "tool.py", "What is the weather in Seoul?"),
        (("extra-openai-models.yaml", _LLM), ("tool.py", _LLM_TOOL)),
        (("LLM_USER_PATH", "."),),
    ),
    Client(
        "aider",
        "pip",
        ("aider-chat==0.86.2",),
        (
            *("aider", "--model", "openai/local", "--yes-always", "--no-git", "--no-analytics"),
            *("--no-check-update", "--no-show-model-warnings", "--no-pretty"),
            *("--edit-format", "diff", "--message", "Print rain.", "said.py"),
        ),
        (("said.py", 'print("sun")\n'),),
        (("OPENAI_API_BASE", "BASE_URL"), ("OPENAI_API_KEY", "none")),
        lambda folder: (folder / "said.py").read_text().strip() == EDITED,
    ),
    Client(
        "ai-sdk",
        "npm",
        ("ai@7.0.173", "@ai-sdk/openai-compatible@3.0.92", "@ai-sdk/openai@4.0.118", "zod@4.1.12"),
        ("node", str(SCRIPTS / "with_ai_sdk.mjs")),
    ),
    Client(
        "opencode",
        "npm",
        ("opencode-ai@1.18.33",),
        ("opencode", "run", "--model", "local/local", "What is the weather in Seoul?"),
        (("opencode.json", json.dumps(_OPENCODE)),),
        (("OPENCODE_DISABLE_AUTOUPDATE", "1"), ("OPENCODE_DISABLE_MODELS_FETCH", "1")),
    ),
    Client("codex", "npm", _CODEX_AT, _CODEX_WORDS, ((".codex/config.toml", _CODEX),)),
    Client(
        "codex-mcp",
        "npm",
        _CODEX_AT,
        _CODEX_WORDS,
        ((".codex/config.toml", _CODEX + _CODEX_MCP), ("weather_server.py", _MCP)),
        proves=lambda folder: (folder / "asked").exists(),
        of="codex",
    ),
)


def answer(request: AnswerRequest) -> str:
    """What a model would say that can do what is asked."""
    last = request.messages[-1]
    if last.role == "tool":
        return ANSWER
    for plain, arguments in _CALLS.items():
        name = next((t.name for t in request.tools if t.name.endswith(plain)), "")
        if not name:
            continue
        body = json.dumps({"name": name, "arguments": arguments})
        return f"<tool_call>\n{body}\n</tool_call>"
    if any("said.py" in message.content for message in request.messages):
        old, new = 'print("sun")', EDITED
        return (
            f"said.py\n```\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n```\n{ANSWER}"
        )
    return "A title"


@contextmanager
def recording() -> Iterator[list[Recorded]]:
    """All bodies that the server of this process reads meanwhile."""
    found: list[Recorded] = []
    before = call.read_body

    async def read_body(shared: Any, request: Any, read: Any = lambda value: value) -> Any:
        def noted(value: Any) -> Any:
            found.append(Recorded(request.url.path, form_of(value)))
            return read(value)

        return await before(shared, request, noted)

    call.read_body = read_body
    try:
        yield found
    finally:
        call.read_body = before


def installed(client: Client, folder: Path) -> Path | None:
    """The folder of the client's programs; None where it cannot be had."""
    at, stamp = folder / (client.of or client.name), " ".join(client.packages)
    programs = at / ("bin" if client.installer == "pip" else "node_modules/.bin")
    known = at / "installed"
    if known.is_file() and known.read_text() == stamp:
        return programs
    at.mkdir(parents=True, exist_ok=True)
    if client.installer == "pip":
        steps = [[sys.executable, "-m", "venv", str(at)]]
        steps.append([str(programs / "python"), "-m", "pip", "install", "-q", *client.packages])
    else:
        steps = [["npm", "install", "--no-audit", "--no-fund", "--prefix", str(at)]]
        steps[0] += client.packages
    for words in steps:
        if shutil.which(words[0]) is None:
            return None
        if subprocess.run(words, cwd=at).returncode:
            return None
    known.write_text(stamp)
    return programs


def turn(client: Client, programs: Path, address: str) -> tuple[bool, str]:
    """Return whether the client has done its turn, and what it said."""
    base = f"{address}/v1"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for place, text in client.files:
            (folder / place).parent.mkdir(exist_ok=True)
            (folder / place).write_text(text.replace("BASE_URL", base))
        plain = {key: os.environ[key] for key in ("LANG", "TZ") if key in os.environ}
        variables = {name: value.replace("BASE_URL", base) for name, value in client.variables}
        made = subprocess.run(
            [
                shutil.which(client.words[0], path=f"{programs}:{os.environ['PATH']}") or "",
                *client.words[1:],
            ],
            cwd=folder,
            env={
                **plain,
                "PATH": f"{programs}:{os.environ['PATH']}",
                "PYTHONPATH": "",
                "HOME": name,
                "BASE_URL": base,
                "PACKAGES": str(programs.parents[1]),
                **variables,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
        )
        is_done = client.proves is None or client.proves(folder)
    return made.returncode == 0 and ANSWER in made.stdout and is_done, made.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clients", nargs="*", metavar="CLIENT")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    failed = []
    for client in CLIENTS:
        if arguments.clients and client.name not in arguments.clients:
            continue
        named = f"{client.name} ({', '.join(client.packages)})"
        programs = installed(client, arguments.folder.resolve())
        if programs is None:
            print(f"{named}: cannot be had here")
            failed.append(client.name)
            continue
        service = ScriptedService(answer, context=1 << 20)
        server = Server(lambda: service, ServerConfig(port=0))  # noqa: B023 - stopped below
        server.start()
        try:
            with recording() as sent:
                is_done, said = turn(client, programs, server.address)
        finally:
            server.stop()
            service.close()
        asked = ", ".join(
            f"{path} x{sum(one.path == path for one in sent)}"
            for path in sorted({one.path for one in sent})
        )
        print(f"{named}: {'done' if is_done else 'NOT DONE'} by {asked or 'nothing'}")
        if not is_done:
            print(said[-4000:])
            failed.append(client.name)
        elif arguments.record:
            write(client.name, client.packages, sent)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
