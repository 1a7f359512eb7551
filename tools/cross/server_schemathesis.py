"""Thousands of requests made of the server's own OpenAPI document, valid and invalid.

python -m tools.cross.server_schemathesis --schemathesis PATH [--cases 2000] [--model MODEL]

No answer may be a 500, none of a status or a form that the document does not name. PATH is
the program of the package schemathesis, in an environment of its own.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.cross.served import served

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
_ADDRESSES = 14  # about: examples are made for each


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schemathesis", default="schemathesis")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--model")
    arguments = parser.parse_args()
    with served(arguments.model, "--parallel", "4") as server:
        program = shutil.which(arguments.schemathesis) or arguments.schemathesis
        words = [str(Path(program).absolute()), "run", f"{server.address}/openapi.json"]
        words += ["--checks", ",".join(CHECKS), "--no-color", "--request-timeout", "60"]
        words += ["-n", str(arguments.cases // _ADDRESSES)]
        with tempfile.TemporaryDirectory() as folder:  # it keeps what it has found
            made = subprocess.run(words, stdout=subprocess.PIPE, text=True, cwd=folder)
        print(made.stdout[-6000:])
        if not server.is_running():
            print("the server has ended")
            return 1
        counted = re.search(r"(\d[\d,]*) generated", made.stdout)
        count = int(counted[1].replace(",", "")) if counted else 0
        print(f"{count} cases, exit code {made.returncode}")
        return made.returncode or int(count < arguments.cases)


if __name__ == "__main__":
    sys.exit(main())
