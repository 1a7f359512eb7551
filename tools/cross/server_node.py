"""OpenAI's client for Node, unchanged, against a real model.

python -m tools.cross.server_node --packages FOLDER [--model MODEL]

FOLDER is where `npm install openai` was called.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tools.cross.served import served

SCRIPT = Path(__file__).with_name("server_node.mjs")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--model", default="smollm2-135m-instruct")
    arguments = parser.parse_args()
    with served(arguments.model, "--backend", "cpu") as server:
        words = ["node", str(SCRIPT), server.address, str(arguments.packages.resolve())]
        return subprocess.run(words).returncode


if __name__ == "__main__":
    sys.exit(main())
