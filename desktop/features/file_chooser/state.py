"""The window's own file chooser, for systems without one: a folder, and what is in it."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

from msgspec import Struct

Place = Literal["home", "documents", "downloads"]
# "path" and "folder": into the field of a path
Purpose = Literal["model", "import", "attach", "conversations", "path", "folder"]
MODEL_PATTERNS = ("*.gguf", "*.safetensors", "config.json", "variant.json", "slice.json")
CONVERSATION_PATTERNS = ("*.json",)
MOST_ENTRIES = 20_000  # of a folder that are listed
MOST_FOLDERS = 6  # that were chosen from last


class PathTarget(Struct, frozen=True):
    """The field of a path, by its name, that gets what is chosen, and the popover that it stands
    in; "": in none."""

    field: str
    popover: str = ""
    patterns: tuple[str, ...] = ()  # of the files that are wanted; (): all
    file_name: str = ""  # of the file in a folder that is chosen; "": the folder itself is wanted


NOWHERE = PathTarget("")


class FileEntry(Struct, frozen=True):
    """Something in a folder; `size` in bytes, -1 for a folder or where it is not known."""

    name: str  # as the system spells it: it may hold surrogates
    is_folder: bool
    size: int = -1


class FilesState(Struct, frozen=True):
    shown: bool = False
    purpose: Purpose = "model"
    target: PathTarget = NOWHERE  # of the purposes "path" and "folder"
    folder: str = ""  # what is listed, an absolute path
    wanted: str = ""  # the folder that is being read; "": none
    entries: tuple[FileEntry, ...] = ()
    left_out: int = 0  # entries beyond MOST_ENTRIES
    named: str = ""  # the file of `folder` whose path was asked for
    problem: str = ""  # why the folder that was asked for cannot be listed
    hidden: bool = False  # hidden entries are shown
    all_kinds: bool = False  # files of other kinds than those that are wanted are shown too
    places: tuple[tuple[Place, str], ...] = ()  # folders to begin with, and what they are
    recent: tuple[str, ...] = ()  # folders that files were chosen from, the last one first

    @property
    def takes_many(self) -> bool:
        return self.purpose == "attach"

    def listed(self, query: str) -> list[FileEntry]:
        """What is shown: folders first, each by its name; `query` is a part of the name."""
        wanted = query.casefold()
        found = [
            entry
            for entry in self.entries
            if (self.hidden or not entry.name.startswith("."))
            and wanted in entry.name.casefold()
            and (entry.is_folder or (self.purpose != "folder" and self._is_of_kind(entry.name)))
        ]
        return sorted(found, key=lambda e: (not e.is_folder, e.name.casefold(), e.name))

    def _is_of_kind(self, name: str) -> bool:
        if self.purpose == "attach" or self.all_kinds:
            return True
        known: tuple[str, ...] = MODEL_PATTERNS
        if self.purpose == "conversations":
            known = CONVERSATION_PATTERNS
        elif self.purpose == "path":
            known = self.target.patterns or ("*",)
        return any(fnmatch(name.lower(), pattern) for pattern in known)

    def chose_from(self, folder: str) -> tuple[str, ...]:
        """The recent folders once something was chosen from `folder`."""
        return (folder, *(one for one in self.recent if one != folder))[:MOST_FOLDERS]


def parent_of(folder: str) -> str:
    """Return the folder around a folder; at the root that is the root itself."""
    return str(Path(folder).parent)
