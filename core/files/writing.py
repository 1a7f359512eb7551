"""The one way of writing files.

A regular file is replaced in one step: readers see the old or the whole new one, and whatever goes
wrong before leaves the old. What a name leads to otherwise is opened and written through, never
replaced: a character device such as /dev/null, a named pipe, a descriptor of this process
(/dev/stdout, /dev/fd/N, a shell's process substitution).
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from msgspec import Struct

from llm_lite.core.errors import FileError
from llm_lite.core.files.leftovers import leftovers, remove_whole, temporary
from llm_lite.core.files.private import FOLDER, OTHERS, tighten
from llm_lite.core.files.renaming import rename_new

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY
_THROUGH = os.O_WRONLY | _BINARY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_MOST_LINKS = 40
_REFUSED = {
    stat.S_IFDIR: "is a directory, expected the name of a file to write",
    stat.S_IFSOCK: "is a socket, expected the name of a file to write",
    stat.S_IFBLK: "is a block device, and writing would destroy what it holds; expected the name "
    "of a file to write",
}
# The folder takes no file of ours, though the file itself may be ours to write.
_NO_ROOM_BESIDE = (errno.EACCES, errno.EPERM, errno.EROFS)
_NOT_REPLACED = (errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM)  # a mount, a sticky folder
_KEPT_ATTRIBUTES = ("user.", "system.posix_acl_access", "security.selinux")
_OF_PRIVATE = ("user.", "security.selinux")  # a list of access may let others in


@contextmanager
def replaced(path: Path, *, new: bool = False, private: bool = False) -> Iterator[BinaryIO]:
    """Yield a file to write what shall be at `path`, which is there when the context ends well.

    A symbolic link is followed, also to a file that is not there yet. The new file has mode, owner
    and attributes of the one it replaces; without one, what the umask says. Where the system
    refuses that (a file of another owner, a folder that may not be written to, a mounted file), the
    finished content is copied into the file that is there, which is not one step. What is written
    through can not seek.

    new: FileError where there is anything already. private: the file is for its owner alone from
    its first byte on, whatever the one that it replaces was; FileError for what is no file.
    FileError too where it cannot be written.
    """
    try:
        target = _target_at(path)
        if private and (target.descriptor is not None or not target.is_file):
            raise FileError(path, "is no regular file, expected one that can be replaced")
        if target.descriptor is not None:
            with Output(os.dup(target.descriptor), seeks=False) as out:
                yield cast(BinaryIO, out)
        elif new and target.old is not None:
            raise FileExistsError
        elif target.is_file:
            with _whole(target.path, target.old, new=new, private=private) as out:
                yield cast(BinaryIO, out)
        else:
            with Output(_open_through(target), seeks=False) as out:
                yield cast(BinaryIO, out)
    except FileExistsError:
        raise FileError(path, "there is such a file already; choose another name") from None
    except OSError as error:
        raise unwritable(path, error) from error


def write_file(path: Path, content: bytes, *, new: bool = False, private: bool = False) -> None:
    """Write the whole content at once, as `replaced` does. FileError."""
    with replaced(path, new=new, private=private) as file:
        file.write(content)


def check_place(path: Path) -> None:
    """Raise before the work the FileError that writing would raise after it. FileError.

    A pipe is not opened for that: its reader would take it for the end.
    """
    try:
        target = _target_at(path)
        if target.descriptor is not None:
            _check_descriptor(target.descriptor)
        elif target.is_file:
            _check_file(target.path, target.old)
        elif not os.access(target.path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise unwritable(path, error) from None


def make_folder(path: Path) -> None:
    """Make the directory and those above it, as far as they are missing. FileError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise FileError(
            path, "cannot be made: there is a file where a directory is to be"
        ) from None
    except (OSError, ValueError) as error:
        raise FileError(path, f"cannot be made: {reason(error)}") from None


def reason(error: Exception) -> str:
    """Return what went wrong, in words: an OSError may lack them, or have no number."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.strerror or os.strerror(error.errno)
    return str(error) or type(error).__name__


def unwritable(path: Path, error: Exception) -> FileError:
    return FileError(path, f"cannot be written: {reason(error)}")


class Output(io.RawIOBase):
    """An open file whose every write is whole, or raises with the number of the error. (NumPy
    gives arrays to C where it sees one of Python's own files, and errors then have no number.)"""

    def __init__(self, descriptor: int, *, seeks: bool = True) -> None:
        self._file = io.FileIO(descriptor, "r+" if seeks else "w")
        self._seeks = seeks

    @classmethod
    def create(cls, path: Path, mode: int = 0o666) -> Output:
        """Create a new file. OSError."""
        return cls(os.open(path, _NEW, mode))

    def write(self, data: ReadableBuffer) -> int:
        view = memoryview(data)
        if not view.nbytes:
            return 0
        rest = view.cast("B")
        while rest.nbytes:
            rest = rest[os.write(self._file.fileno(), rest) :]
        return view.nbytes

    def finish(self) -> None:
        """Close the file once the disk has it."""
        os.fsync(self._file.fileno())
        self.close()

    def close(self) -> None:
        super().close()
        self._file.close()

    def fileno(self) -> int:
        return self._file.fileno()

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._seeks

    def tell(self) -> int:
        return self.seek(0, os.SEEK_CUR)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if not self._seeks:  # some devices would say 0, whatever was written
            raise io.UnsupportedOperation("what is written through has no position")
        return self._file.seek(offset, whence)


class _Target(Struct, frozen=True):
    """The file, device or descriptor that a path leads to."""

    path: Path  # without links
    old: os.stat_result | None  # of what is there
    descriptor: int | None = None  # of this process

    @property
    def is_file(self) -> bool:
        """Return True for a regular file to replace, or a new one to make."""
        return self.old is None or stat.S_ISREG(self.old.st_mode)


def _target_at(path: Path) -> _Target:
    """Return what a path leads to. FileError for what is never written to; OSError if it cannot be
    found out."""
    try:
        number = _descriptor(path)
        if number is not None:
            return _Target(path, None, number)
        try:
            old = path.stat()
        except FileNotFoundError:
            return _Target(_with_folder(path), None)
        real = Path(os.path.realpath(path))
    except ValueError as error:  # a null, or a character that no file name can have
        raise FileError(path, f"is no path: {error}") from None
    if problem := _REFUSED.get(stat.S_IFMT(old.st_mode)):
        raise FileError(path, problem)
    return _Target(real if stat.S_ISREG(old.st_mode) else path, old)


def _with_folder(path: Path) -> Path:
    """Return where a new file is made: a link may lead to it. FileError without such a folder."""
    real = Path(os.path.realpath(path))
    if not real.parent.is_dir():
        raise FileError(path, f"cannot be written: there is no directory {real.parent}")
    return real


def _descriptor(path: Path) -> int | None:
    """Return N for a path that leads, maybe by links as /dev/stdout, to this process' /dev/fd/N."""
    for _ in range(_MOST_LINKS):
        folder = os.path.realpath(path.parent)
        own = folder in ("/dev/fd", f"/proc/{os.getpid()}/fd")
        if own and path.name.isascii() and path.name.isdecimal():
            return int(path.name)
        try:
            path = Path(folder) / path.readlink()
        except OSError:
            return None
    return None


def _open_through(target: _Target) -> int:
    """Open a device or a pipe, without waiting for a reader at the other end."""
    try:
        descriptor = os.open(target.path, _THROUGH)
    except OSError as error:
        pipe = target.old is not None and stat.S_ISFIFO(target.old.st_mode)
        if pipe and error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "nobody reads this pipe") from None
        raise
    os.set_blocking(descriptor, True)
    return descriptor


@contextmanager
def _whole(
    target: Path, old: os.stat_result | None, *, new: bool, private: bool
) -> Iterator[Output]:
    _may_write(target, old)
    tidy(target)
    with temporary(target) as part:
        try:
            mode = 0o666 if old is None else old.st_mode & 0o666
            out = Output.create(part, mode & ~OTHERS if private else mode)
        except OSError as error:
            if old is None or error.errno not in _NO_ROOM_BESIDE:
                raise
            import tempfile  # late, as hardly anybody needs it

            with tempfile.TemporaryFile() as file, Output(os.dup(file.fileno())) as out:
                yield out
                _copy_over(file, target, private=private)
            return
        with out:
            alike = old is None or _make_alike(out.fileno(), target, old, private=private)
            yield out
            out.finish()
        if new:
            rename_new(part, target)
        elif not alike or not _replace(part, target):
            with part.open("rb") as made:
                _copy_over(made, target, private=private)
    sync_folder(target.parent)


def tidy(target: Path) -> None:
    """Remove what killed writers of this file left."""
    for path, _ in leftovers(target):
        if not path.is_dir():
            remove_whole(path)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that a rename outlives a loss of power, if the system can open it."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _may_write(target: Path, old: os.stat_result | None) -> None:
    """Raise OSError if the file may not be replaced: a rename asks the folder alone, so that a
    read-only file could be."""
    if old is not None:
        os.close(os.open(target, _THROUGH))


def _make_alike(descriptor: int, target: Path, old: os.stat_result, *, private: bool) -> bool:
    """Give a new file mode, owner and attributes of the old one, of a private one those that are
    for its owner; return whether the system let us."""
    if not hasattr(os, "fchown"):
        return True
    made = os.fstat(descriptor)
    try:
        if (made.st_uid, made.st_gid) != (old.st_uid, old.st_gid):
            os.fchown(descriptor, old.st_uid, old.st_gid)
        _copy_attributes(descriptor, target, _OF_PRIVATE if private else _KEPT_ATTRIBUTES)
        os.fchmod(descriptor, old.st_mode & (FOLDER if private else 0o777))
    except PermissionError:
        return False
    return True


def _copy_attributes(descriptor: int, target: Path, kept: tuple[str, ...]) -> None:
    if not hasattr(os, "listxattr"):
        return
    with contextlib.suppress(OSError):  # a file system without them
        for name in os.listxattr(target):
            if name.startswith(kept):
                with contextlib.suppress(OSError):
                    os.setxattr(descriptor, name, os.getxattr(target, name))


def _replace(part: Path, target: Path) -> bool:
    """Move the new file to its place and return True; False where the system refuses that. OSError
    for any other failure."""
    try:
        os.replace(part, target)  # noqa: PTH105 - one call to intercept
    except OSError as error:
        if error.errno not in _NOT_REPLACED or not target.exists():
            raise
        return False
    return True


def _copy_over(file: BinaryIO | io.BufferedReader, target: Path, *, private: bool) -> None:
    """Copy into the file that is there; a full disk is noticed before anything of it is lost."""
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    with Output(os.open(target, os.O_WRONLY | _BINARY), seeks=False) as out:
        if private:
            tighten(out.fileno())
        _reserve(out.fileno(), size)
        shutil.copyfileobj(file, out, 1 << 20)
        os.ftruncate(out.fileno(), size)
        out.finish()


def _reserve(descriptor: int, size: int) -> None:
    if not size or not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # a file system that cannot
            raise


def _check_file(target: Path, old: os.stat_result | None) -> None:
    _may_write(target, old)
    with temporary(target) as part:
        try:
            Output.create(part).close()
        except OSError as error:
            if old is None or error.errno not in _NO_ROOM_BESIDE:
                raise


def _check_descriptor(number: int) -> None:
    import fcntl  # there is no such path where there is no such module

    if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, "it is open for reading only")
