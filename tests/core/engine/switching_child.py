"""Switches of the weight mode in a process of its own, where nothing else takes memory."""

import json
import sys
import tempfile
from pathlib import Path

from llm_lite.core.loading.runner import Runner
from llm_lite.core.memory import trim_heap
from llm_lite.core.messages import ExecutorChanged, Reconfigure
from tests.core.engine_client import PATIENCE, Client
from tests.make_gguf import write_tiny_llama
from tests.resident import resident_bytes
from tests.runners import exact

MODES = ("fp16", "int8", "fp32")
ROUNDS = 7


def main(arguments):
    """Resident bytes after each switch, [rounds][modes], as JSON; "leak": no runner is closed."""
    client, sizes, kept = Client(), [], []
    if arguments == ["leak"]:
        Runner.close = lambda runner: kept.append(runner)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wide.gguf"
        client.load(write_tiny_llama(path, width=256, ffn=1024, context=2048), exact())
        for _ in range(ROUNDS):
            sizes.append([])
            for mode in MODES:
                client.send(Reconfigure(exact(mode=mode)))
                client.until(ExecutorChanged)
                trim_heap()
                sizes[-1].append(resident_bytes())
        client.engine.close(PATIENCE)
    print(json.dumps(sizes))
    sys.stdout.flush()
