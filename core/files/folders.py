"""Directories of the program: written beside their place, put there in one step, removed by a list.

What is deleted is what the directory lists as its own, and nothing else, ever: a person may have
put something of theirs into it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from llm_lite.core.errors import FileError
from llm_lite.core.files.leftovers import leftovers, name_beside, remove_whole, temporary
from llm_lite.core.files.renaming import exchange, rename_free, rename_new
from llm_lite.core.files.writing import Output, reason, sync_folder, unwritable

# The names of all files of a directory of ours, the one that says so last. FileError where it is
# none, or does not say it in a way that we understand.
Listed = Callable[[Path], Sequence[str]]


class NewFolder:
    """A directory that appears whole. Use as a context: write to files of `path`; `put` makes the
    directory appear, leaving without it removes all traces. Killed at any moment it leaves what was
    there before, or the whole new one; besides, perhaps, a hidden directory that the next writer of
    this place removes.

    listed: what a directory that is there already holds of ours; `replace`: it may be replaced.
    FileError where there is something else, or nothing can be written: an OSError becomes one on
    the way out.
    """

    def __init__(
        self,
        destination: Path,
        listed: Listed | None = None,
        *,
        replace: bool = False,
    ) -> None:
        self._destination, self._listed, self._replace = destination, listed, replace
        self._stack = ExitStack()
        self.check()

    def check(self) -> None:
        """Raise FileError if the folder could not be put in its place."""
        check_folder(self._destination, self._listed if self._replace else None)

    def __enter__(self) -> NewFolder:
        tidy(self._destination, self._listed)
        with ExitStack() as stack:
            self.path = stack.enter_context(temporary(self._destination, self._remove))
            try:
                self.path.mkdir()
            except OSError as error:
                raise unwritable(self._destination, error) from None
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
        if isinstance(error, OSError):
            raise unwritable(self._destination, error) from error

    def create(self, name: str) -> Output:
        """Create a file of the directory. OSError."""
        return Output.create(self.path / name)

    def write(self, name: str, content: bytes) -> None:
        """Write a whole file of the directory. OSError."""
        with self.create(name) as file:
            file.write(content)
            file.finish()

    def put(self) -> None:
        """Move the folder to its place. FileError if the place was taken meanwhile; what took it is
        left alone."""
        self.check()
        try:
            sync_folder(self.path)
            if not (self._replace and _is_there(self._destination)):
                rename_new(self.path, self._destination)
                sync_folder(self._destination.parent)
                return
            assert self._listed is not None
            gone = self._change_places()
            sync_folder(self._destination.parent)
        except OSError as error:
            raise unwritable(self._destination, error) from None
        _discard(gone, self._listed, self._destination, "is replaced")

    def _change_places(self) -> Path:
        """Exchange the new folder with the old one and return the old one's path."""
        gone = name_beside(self._destination, "gone")
        _copy_owner(self._destination, self.path)
        if exchange(self.path, self._destination):
            self.path.rename(gone)
            return gone
        old = name_beside(self._destination, "old")
        self._destination.rename(old)  # a kill between the two: `tidy` brings it back
        try:
            rename_new(self.path, self._destination)
        except OSError:
            rename_new(old, self._destination)
            raise
        old.rename(gone)
        return gone

    def _remove(self, path: Path) -> None:
        _sweep(path, self._listed)


def check_folder(path: Path, listed: Listed | None = None, *, advice: str = "") -> None:
    """Raise FileError if no directory may be put at `path`, or none can be made beside it.

    listed: of a directory that would be replaced, and may hold nothing else. advice: what else a
    person can do about a place that is taken.
    """
    try:
        if not path.name:
            raise FileError(path, "cannot be written: expected the name of a directory to make")
        if not path.parent.is_dir():
            raise FileError(path, f"cannot be written: there is no directory {path.parent}")
        if _is_there(path):
            if listed is None:
                raise FileError(path, f"exists already; choose another name{advice}")
            _check_own(path, listed)
        with temporary(path) as part:
            part.mkdir()
    except (OSError, ValueError) as error:  # a name too long, a folder that may not be entered
        raise unwritable(path, error) from None


def remove_folder(path: Path, listed: Listed) -> int:
    """Delete a directory of ours, all or nothing of it, and return the bytes that it took.
    FileError.

    It is gone with its name. What a kill leaves is removed by `tidy`.
    """
    try:
        _check_own(path, listed)
        nbytes = sum(part.stat().st_size for part in path.iterdir())
        gone = name_beside(path, "gone")
        rename_new(path, gone)
    except OSError as error:
        raise FileError(path, f"cannot be removed: {reason(error)}") from None
    _discard(gone, listed, path, "is removed")
    return nbytes


def remove_file(path: Path) -> int:
    """Delete a file, of a link the link itself, and return the bytes that this frees. A missing one
    is no error. FileError."""
    try:
        status = path.lstat()
        path.unlink()
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise FileError(path, f"cannot be removed: {reason(error)}") from None
    return status.st_size if status.st_nlink <= 1 and stat.S_ISREG(status.st_mode) else 0


def tidy(destination: Path, listed: Listed | None) -> None:
    """Remove what killed writers for this place left; bring back what one had moved away."""
    for path, kind in leftovers(destination):
        if kind == "old" and not os.path.lexists(destination):
            with contextlib.suppress(OSError):
                rename_new(path, destination)
        elif kind == "part" or listed is not None:
            _sweep(path, listed)


def _is_there(path: Path) -> bool:
    """Return True if something is there. OSError if it could not be: os.path.lexists takes a name
    too long for a free one."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


def _check_own(path: Path, listed: Listed) -> None:
    """Raise FileError if `path` is not a directory with nothing in it but what it lists."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        raise FileError(path, "is a symbolic link, expected the directory itself")
    if not stat.S_ISDIR(mode):
        raise FileError(path, "exists and is no directory, which alone can be replaced")
    if path.is_mount():
        raise FileError(path, "is a mount point, which cannot be replaced")
    if not os.access(path, os.W_OK | os.X_OK):  # its files could not be deleted
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    if (other := _foreign(path, listed(path))) is not None:
        raise FileError(
            path / other, "is not listed as a file of this directory: move it elsewhere first"
        )


def _foreign(folder: Path, names: Sequence[str]) -> str | None:
    """Return the first entry that the directory does not list; a link or a directory is none of
    ours."""
    with os.scandir(folder) as entries:
        others = [e.name for e in entries if e.name not in names or not _is_plain(e)]
    return min(others, default=None)


def _is_plain(entry: os.DirEntry[str]) -> bool:
    return stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode)


def _discard(folder: Path, listed: Listed, place: Path, done: str) -> None:
    """Delete a directory of ours that was at `place`; FileError where something in it stays, which
    then gets a name that can be seen."""
    try:
        other = _delete(folder, listed(folder))
        problem = "" if other is None else f"{other} appeared in it meanwhile and"
    except (OSError, FileError) as error:
        problem = f"its old files cannot be deleted ({reason(error)}), and what is left"
    if problem:
        with contextlib.suppress(OSError):
            folder = rename_free(folder, place.with_name(f"{place.name}.kept"))
        raise FileError(place, f"{done}, but {problem} is kept in {folder}")


def _delete(folder: Path, names: Sequence[str]) -> str | None:
    """Delete what is listed, and the directory; or nothing where there is something else, whose
    name is returned."""
    if (other := _foreign(folder, names)) is not None:
        return other
    for name in names:
        (folder / name).unlink(missing_ok=True)
    folder.rmdir()
    return None


def _sweep(path: Path, listed: Listed | None) -> None:
    """Remove what is left of a directory: by its list, if it came to have one."""
    if not os.path.lexists(path):
        return
    try:
        names = listed(path) if listed is not None else ()
    except FileError:
        names = ()
    if not names and path.name.endswith(".part"):
        remove_whole(path)
        return
    with contextlib.suppress(OSError):
        _delete(path, names)


def _copy_owner(old: Path, new: Path) -> None:
    """Copy mode and owner, as far as the system allows it."""
    with contextlib.suppress(OSError):
        status = old.stat()
        if hasattr(os, "chown"):
            os.chown(new, status.st_uid, status.st_gid)
        new.chmod(stat.S_IMODE(status.st_mode))
