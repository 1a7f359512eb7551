"""Reads folders for the window's file chooser in a thread of its own: a disk may be slow."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from llm_lite.core.errors import FileError
from llm_lite.core.files.places import expanded, user_folder
from llm_lite.desktop.actions.window.files import BrowseFolder, FolderRead, ShowFiles
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.state.window.files_state import MOST_ENTRIES, Entry, Place, Purpose


class FolderReader:
    """`wake` is called from another thread when `poll` has something. Only the last folder that was
    asked for counts; one that never answers, as on a lost network, holds nobody up."""

    def __init__(self) -> None:
        self.wake: Callable[[], None] = lambda: None
        self._done: deque[FolderRead] = deque()

    def read(self, action: ShowFiles | BrowseFolder) -> None:
        work = threading.Thread(
            target=self._work, args=(action.folder,), name="folder", daemon=True
        )
        work.start()

    def poll(self) -> list[FolderRead]:
        found = []
        while self._done:
            found.append(self._done.popleft())
        return found

    def _work(self, folder: str) -> None:
        self._done.append(listing(folder))
        self.wake()


def listing(asked: str) -> FolderRead:
    """What is in a folder, or around a file; a sentence where it cannot be read."""
    entries: list[Entry] = []
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


def _entry(one: os.DirEntry[str]) -> Entry:
    try:
        is_folder = one.is_dir()
        return Entry(one.name, is_folder, -1 if is_folder else one.stat().st_size)
    except OSError:  # a link that leads nowhere
        return Entry(one.name, False)


def begin(purpose: Purpose, state: AppState) -> ShowFiles:
    """Choosing begins where something was chosen last, else where the model in use lies, else in
    the first of the person's folders that is there."""
    places = _places()
    wanted = [*map(Path, state.chooser.recent[:1])]
    wanted += [Path(path).parent for path in state.recent[:1] if purpose != "attach"]
    wanted += [Path(folder) for _, folder in places]
    found = (str(place) for place in wanted if place.is_absolute() and place.is_dir())
    return ShowFiles(purpose, next(found, os.sep), places)


def _places() -> tuple[tuple[Place, str], ...]:
    """Folders of the person that are there."""
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
