"""Choosing files without holding up the frames: the system's file dialog, and where it has none the
folders that the window's own chooser lists."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from llm_lite.core.errors import DeviceError, FileError, RequestError
from llm_lite.core.files.places import expanded, user_folder
from llm_lite.core.records import replace
from llm_lite.desktop.features.file_chooser.model import (
    BrowseFolder,
    ChoosePath,
    FolderRead,
    ShowFiles,
)
from llm_lite.desktop.features.file_chooser.state import (
    CONVERSATION_PATTERNS,
    MODEL_PATTERNS,
    MOST_ENTRIES,
    NOWHERE,
    FileEntry,
    PathTarget,
    Place,
    Purpose,
)
from llm_lite.desktop.features.host import Host
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr

# A directory of Hugging Face opens by its config.json, a variant by its variant.json.
_MODELS = " ".join(MODEL_PATTERNS)
LINUX_HELPERS = ("zenity", "kdialog", "matedialog", "qarma")


class Wish(Struct, frozen=True):
    """The files that a person is to choose."""

    title: str  # translated where it is shown
    kinds: tuple[tuple[str, str], ...]  # name, patterns
    purpose: Purpose = "model"
    target: PathTarget = NOWHERE

    @property
    def many(self) -> bool:
        return self.purpose == "attach"

    @property
    def named_kinds(self) -> list[tuple[str, str]]:
        return [(tr(name), patterns) for name, patterns in self.kinds]


MODEL = Wish(mark("Open a model"), ((mark("Models"), _MODELS), (mark("All files"), "*")))
IMPORT = Wish(mark("Import a model"), MODEL.kinds, "import")
CONVERSATIONS = Wish(
    mark("Import conversations"),
    ((mark("Conversations"), " ".join(CONVERSATION_PATTERNS)), MODEL.kinds[1]),
    "conversations",
)
FOLDER = Wish(mark("Choose a folder"), (), "folder")
FILE = Wish(mark("Choose a file"), (MODEL.kinds[1],), "path")
ATTACHMENTS = Wish(mark("Attach files"), ((mark("All files"), "*"),), "attach")


def wish_for(action: ChoosePath) -> Wish:
    """Return the wish for a path that is to stand in a field."""
    if action.folder:
        return replace(FOLDER, target=action.target)
    patterns = " ".join(action.target.patterns)
    kinds = (*([(patterns, patterns)] if patterns else []), *FILE.kinds)
    return replace(FILE, target=action.target, kinds=kinds)


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

    def show(self, folder: Path | None, wish: Wish = MODEL) -> None:
        """Show the dialog. Raises NoDialogError where the system has none."""
        if self._dialog is not None:
            return
        self.wish = wish
        make = _Helper if sys.platform == "linux" else _Library
        self._dialog = make(folder, wish)

    def poll(self) -> tuple[Path, ...]:
        """Return the chosen files, when they have just been chosen. Raises RequestError where a
        name is ambiguous."""
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
        """Return the chosen paths, none where the dialog was cancelled. Where there may be many, a
        name with a line break cannot be distinguished from two."""
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
    many += ["--directory"] if wish.purpose == "folder" else []
    return ["--file-selection", f"--title={tr(wish.title)}", *many, *start, *filters]


def _kdialog(folder: Path | None, wish: Wish) -> list[str]:
    if wish.purpose == "folder":
        return ["--title", tr(wish.title), "--getexistingdirectory", str(folder or ".")]
    filters = "\n".join(f"{patterns}|{label}" for label, patterns in wish.named_kinds)
    many = ["--multiple", "--separate-output"] if wish.many else []
    return ["--title", tr(wish.title), *many, "--getopenfilename", str(folder or "."), filters]


class _Library:
    """Windows and macOS."""

    def __init__(self, folder: Path | None, wish: Wish) -> None:
        from imgui_bundle import portable_file_dialogs as dialogs

        start = str(folder) if folder and str(folder).isprintable() else ""
        self._is_folder = wish.purpose == "folder"
        if self._is_folder:
            self._dialog: Any = dialogs.select_folder(tr(wish.title), start)
            return
        filters = [word for kind in wish.named_kinds for word in kind]
        option = dialogs.opt.multiselect if wish.many else dialogs.opt.none
        self._dialog = dialogs.open_file(tr(wish.title), start, filters, option)

    def ready(self) -> bool:
        return bool(self._dialog.ready(0))

    def chosen(self) -> tuple[Path, ...]:
        try:
            found = self._dialog.result()
            names = list(filter(None, [found])) if self._is_folder else found
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


class FolderReader(Host):
    """A reader of folders. Only the last that was asked for counts; one that never answers, as on a
    lost network, holds nobody up."""

    actions = (ShowFiles, BrowseFolder)

    def __init__(self) -> None:
        self._done: deque[FolderRead] = deque()

    def do(self, action: ShowFiles | BrowseFolder, state: AppState) -> Sequence[Action]:
        work = threading.Thread(
            target=self._work, args=(action.folder,), name="folder", daemon=True
        )
        work.start()
        return ()

    def poll(self, state: AppState) -> list[FolderRead]:
        found = []
        while self._done:
            found.append(self._done.popleft())
        return found

    def _work(self, folder: str) -> None:
        self._done.append(listing(folder))
        self.wake()


def listing(asked: str) -> FolderRead:
    """Return what is in a folder, or around a file; a sentence where it cannot be read."""
    entries: list[FileEntry] = []
    left_out, folder, named = 0, asked, ""
    try:
        path = expanded(asked).absolute()
        if path.is_file():
            path, named = path.parent, path.name
        folder = str(path)
        with os.scandir(folder) as found:
            for one in found:
                if len(entries) < MOST_ENTRIES:
                    entries.append(_entry(one))
                else:
                    left_out += 1
    except FileError as error:
        return FolderRead(asked, folder, problem=str(error))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problem = tr("This folder cannot be listed: {reason}.").format(reason=reason)
        return FolderRead(asked, folder, problem=problem)
    return FolderRead(asked, folder, tuple(entries), left_out, named)


def _entry(one: os.DirEntry[str]) -> FileEntry:
    try:
        is_folder = one.is_dir()
        return FileEntry(one.name, is_folder, -1 if is_folder else one.stat().st_size)
    except OSError:  # a link that leads nowhere
        return FileEntry(one.name, False)


def begin_choosing(purpose: Purpose, state: AppState, target: PathTarget = NOWHERE) -> ShowFiles:
    """Begin where something was chosen last, else where the model in use lies, else in the first
    of the person's folders that is there."""
    places = _places()
    wanted = [*map(Path, state.chooser.recent[:1])]
    of_models = purpose in ("model", "import")
    wanted += [Path(path).parent for path in state.recent[:1] if of_models]
    wanted += [Path(folder) for _, folder in places]
    found = (str(place) for place in wanted if place.is_absolute() and place.is_dir())
    return ShowFiles(purpose, next(found, os.sep), places, target)


def _places() -> tuple[tuple[Place, str], ...]:
    """List the folders of the person that are there."""
    documents = user_folder("documents").parent
    try:
        home = Path.home()
    except RuntimeError:  # nobody knows the home directory
        home = documents.parent
    wanted: tuple[tuple[Place, Path], ...] = (
        ("home", home),
        ("documents", documents),
        ("downloads", home / "Downloads"),
    )
    return tuple((kind, str(folder)) for kind, folder in wanted if folder.is_dir())
