"""The system's file dialog, asked without holding up the frames."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

from llm_lite.core.errors import DeviceError, RequestError
from llm_lite.desktop.language.translate import mark, tr

# A directory of Hugging Face opens by its config.json, a variant by its variant.json.
KINDS = (
    (mark("Models"), "*.gguf *.safetensors config.json variant.json slice.json"),
    (mark("All files"), "*"),
)
TITLE = mark("Open a model")
LINUX_HELPERS = ("zenity", "kdialog", "matedialog", "qarma")


class _Dialog(Protocol):
    def ready(self) -> bool: ...
    def chosen(self) -> Path | None: ...
    def kill(self) -> None: ...


class FileDialog:
    """At most one dialog at a time; `poll` gives its answer once."""

    def __init__(self) -> None:
        self._dialog: _Dialog | None = None

    @property
    def open(self) -> bool:
        return self._dialog is not None

    def ask(self, folder: Path | None) -> None:
        """Show the dialog. Raises DeviceError where the system has none."""
        if self._dialog is not None:
            return
        self._dialog = _Helper(folder) if sys.platform == "linux" else _Library(folder)

    def poll(self) -> Path | None:
        """The chosen file, when one has just been chosen. Raises RequestError where its name cannot
        be told."""
        if self._dialog is None or not self._dialog.ready():
            return None
        dialog, self._dialog = self._dialog, None
        return dialog.chosen()

    def close(self) -> None:
        if self._dialog is not None:
            self._dialog.kill()
            self._dialog = None


class _Helper:
    """A program of the desktop. The library asks the same ones, but holds the interpreter for a
    tenth of a second meanwhile, and cannot say names that are no UTF-8."""

    def __init__(self, folder: Path | None) -> None:
        program = next(filter(None, map(shutil.which, LINUX_HELPERS)), None)
        if program is None:
            raise DeviceError(
                tr(
                    "No file dialog is installed (zenity or kdialog). Drop the file on the window, "
                    "or type its path under Models."
                )
            )
        words = _kdialog(folder) if Path(program).name == "kdialog" else _zenity(folder)
        try:
            self._process = subprocess.Popen(
                [program, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            problem = tr("The file dialog {program} cannot be started: {reason}")
            raise DeviceError(problem.format(program=program, reason=error.strerror)) from None

    def ready(self) -> bool:
        return self._process.poll() is not None

    def chosen(self) -> Path | None:
        """None where the person cancelled."""
        assert self._process.stdout is not None
        with self._process.stdout as answer:
            name = answer.read().removesuffix(b"\n")
        return Path(os.fsdecode(name)) if self._process.returncode == 0 and name else None

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def _zenity(folder: Path | None) -> list[str]:
    start = [f"--filename={folder}{os.sep}"] if folder else []
    filters = [f"--file-filter={tr(label)} | {patterns}" for label, patterns in KINDS]
    return ["--file-selection", f"--title={tr(TITLE)}", *start, *filters]


def _kdialog(folder: Path | None) -> list[str]:
    filters = "\n".join(f"{patterns}|{tr(label)}" for label, patterns in KINDS)
    return ["--title", tr(TITLE), "--getopenfilename", str(folder or "."), filters]


class _Library:
    """Windows and macOS."""

    def __init__(self, folder: Path | None) -> None:
        from imgui_bundle import portable_file_dialogs as dialogs

        start = str(folder) if folder and str(folder).isprintable() else ""
        filters = [word for label, patterns in KINDS for word in (tr(label), patterns)]
        self._dialog: Any = dialogs.open_file(tr(TITLE), start, filters)

    def ready(self) -> bool:
        return bool(self._dialog.ready(0))

    def chosen(self) -> Path | None:
        try:
            names = self._dialog.result()
        except UnicodeDecodeError as error:
            raise RequestError(
                tr(
                    "The name of the chosen file is not UTF-8, which the file dialog cannot say. "
                    "Drop the file on the window, or name it on the command line."
                )
            ) from error
        return Path(names[0]) if names else None

    def kill(self) -> None:
        self._dialog.kill()
