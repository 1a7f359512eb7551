"""The system's file dialog, asked without holding up the frames."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

from llm_lite.core.errors import DeviceError, RequestError
from llm_lite.core.records import dataclass
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.window.files_state import MODEL_PATTERNS, Purpose

# A directory of Hugging Face opens by its config.json, a variant by its variant.json.
_MODELS = " ".join(MODEL_PATTERNS)
LINUX_HELPERS = ("zenity", "kdialog", "matedialog", "qarma")


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be chosen."""

    title: str  # translated where it is shown
    kinds: tuple[tuple[str, str], ...]  # name, patterns
    purpose: Purpose = "model"

    @property
    def many(self) -> bool:
        return self.purpose == "attach"

    @property
    def named_kinds(self) -> list[tuple[str, str]]:
        return [(tr(name), patterns) for name, patterns in self.kinds]


MODEL = Wish(mark("Open a model"), ((mark("Models"), _MODELS), (mark("All files"), "*")))
IMPORT = Wish(mark("Import a model"), MODEL.kinds, "import")
ATTACHMENTS = Wish(mark("Attach files"), ((mark("All files"), "*"),), "attach")


class NoDialogError(DeviceError):
    """The system has no file dialog, or it cannot be shown."""


class _Dialog(Protocol):
    def ready(self) -> bool: ...
    def chosen(self) -> tuple[Path, ...]: ...
    def kill(self) -> None: ...


class FileDialog:
    """At most one dialog at a time; `poll` gives its answer once."""

    def __init__(self) -> None:
        self._dialog: _Dialog | None = None
        self.wish = MODEL  # of the last one

    @property
    def open(self) -> bool:
        return self._dialog is not None

    def ask(self, folder: Path | None, wish: Wish = MODEL) -> None:
        """Show the dialog. Raises NoDialogError where the system has none."""
        if self._dialog is not None:
            return
        self.wish = wish
        make = _Helper if sys.platform == "linux" else _Library
        self._dialog = make(folder, wish)

    def poll(self) -> tuple[Path, ...]:
        """The chosen files, when they have just been chosen. Raises RequestError where a name
        cannot be told."""
        if self._dialog is None or not self._dialog.ready():
            return ()
        dialog, self._dialog = self._dialog, None
        return dialog.chosen()

    def close(self) -> None:
        if self._dialog is not None:
            self._dialog.kill()
            self._dialog = None


class _Helper:
    """A program of the desktop. The library asks the same ones, but holds the interpreter for a
    tenth of a second meanwhile, and cannot say names that are no UTF-8."""

    def __init__(self, folder: Path | None, wish: Wish) -> None:
        program = next(filter(None, map(shutil.which, LINUX_HELPERS)), None)
        if program is None:
            raise NoDialogError("no program that shows a file dialog is installed")
        self._many = wish.many
        asks = _kdialog if Path(program).name == "kdialog" else _zenity
        try:
            self._process = subprocess.Popen(
                [program, *asks(folder, wish)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            raise NoDialogError(f"{program} cannot be started: {error.strerror}") from None

    def ready(self) -> bool:
        return self._process.poll() is not None

    def chosen(self) -> tuple[Path, ...]:
        """None where cancelled. A name with a line break cannot be told from two where
        there may be many."""
        assert self._process.stdout is not None
        with self._process.stdout as answer:
            name = answer.read().removesuffix(b"\n")
        if self._process.returncode != 0 or not name:
            return ()
        names = name.split(b"\n") if self._many else [name]
        return tuple(Path(os.fsdecode(one)) for one in names if one)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def _zenity(folder: Path | None, wish: Wish) -> list[str]:
    start = [f"--filename={folder}{os.sep}"] if folder else []
    filters = [f"--file-filter={label} | {patterns}" for label, patterns in wish.named_kinds]
    many = ["--multiple", "--separator=\n"] if wish.many else []
    return ["--file-selection", f"--title={tr(wish.title)}", *many, *start, *filters]


def _kdialog(folder: Path | None, wish: Wish) -> list[str]:
    filters = "\n".join(f"{patterns}|{label}" for label, patterns in wish.named_kinds)
    many = ["--multiple", "--separate-output"] if wish.many else []
    return ["--title", tr(wish.title), *many, "--getopenfilename", str(folder or "."), filters]


class _Library:
    """Windows and macOS."""

    def __init__(self, folder: Path | None, wish: Wish) -> None:
        from imgui_bundle import portable_file_dialogs as dialogs

        start = str(folder) if folder and str(folder).isprintable() else ""
        filters = [word for kind in wish.named_kinds for word in kind]
        option = dialogs.opt.multiselect if wish.many else dialogs.opt.none
        self._dialog: Any = dialogs.open_file(tr(wish.title), start, filters, option)

    def ready(self) -> bool:
        return bool(self._dialog.ready(0))

    def chosen(self) -> tuple[Path, ...]:
        try:
            names = self._dialog.result()
        except UnicodeDecodeError as error:
            raise RequestError(
                tr(
                    "The name of the chosen file is not UTF-8, which the file dialog cannot say. "
                    "Drop the file on the window, or name it on the command line."
                )
            ) from error
        return tuple(map(Path, names))

    def kill(self) -> None:
        self._dialog.kill()
