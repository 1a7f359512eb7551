"""The door for writing files: what is at a path decides, and nothing half made stays."""

import io
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from core import files
from core.errors import FileError, LlmLiteError
from core.files import check_place, make_folder, reason, replaced, write_file

ROOT = Path(__file__).parents[2]
DEAD = 2**22 + 17  # beyond the largest number that a process may have
NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may do this")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def child(code, *arguments, **options):
    """A Python of its own over this source; its one line of output."""
    run = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, **options,
    )  # fmt: skip
    assert "Traceback" not in run.stderr, run.stderr
    return run.stdout.strip()


WRITE = """
import os, sys
from pathlib import Path
from core.errors import FileError
from core.files import check_place, write_file
before = os.umask(0o022)
def tell(action, *arguments):
    try:
        action(*arguments)
    except FileError as error:
        return error.problem
    return "written" if arguments[1:] else "good"
"""
TELL = WRITE + (
    "print(tell(check_place, Path(sys.argv[1])), tell(write_file, Path(sys.argv[1]), b'new'),"
    " sep='; ')"
)


# Regular files


def test_a_new_file_has_the_mode_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "x", b"new")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "x") == 0o640
    assert (tmp_path / "x").read_bytes() == b"new"
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("mode", [0o640, 0o600, 0o664, 0o755])
def test_mode_and_attributes_stay(tmp_path, mode):
    place = tmp_path / "x"
    place.write_bytes(b"old")
    place.chmod(mode)
    try:
        os.setxattr(place, "user.note", b"mine")
    except OSError:
        pytest.skip("no extended attributes here")
    write_file(place, b"new")
    assert (mode_of(place), os.getxattr(place, "user.note")) == (mode, b"mine")


@AS_ROOT
def test_the_owner_stays(tmp_path):
    place = tmp_path / "x"
    place.write_bytes(b"old")
    os.chown(place, NOBODY, 12345)
    place.chmod(0o640)
    write_file(place, b"new")
    status = place.stat()
    assert (status.st_uid, status.st_gid, mode_of(place)) == (NOBODY, 12345, 0o640)


def test_readers_see_the_old_or_the_whole_new(tmp_path):
    place = tmp_path / "x"
    place.write_bytes(b"old")
    with place.open("rb") as reader, replaced(place) as out:
        out.write(b"n")
        assert place.read_bytes() == b"old"
        out.write(b"ew")
        assert len(names(tmp_path)) == 2
        assert reader.read() == b"old"
    assert place.read_bytes() == b"new"
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, LlmLiteError, MemoryError, OSError])
def test_whatever_ends_it_leaves_the_old(tmp_path, error):
    place = tmp_path / "x"
    place.write_bytes(b"old")
    with (
        pytest.raises(FileError if error is OSError else error),
        replaced(place) as out,
    ):
        out.write(b"half")
        raise error
    assert place.read_bytes() == b"old"
    assert names(tmp_path) == ["x"]


def test_new_never_replaces(tmp_path):
    place = tmp_path / "x"
    write_file(place, b"first", new=True)
    with pytest.raises(FileError, match="x: there is such a file already; choose another name"):
        write_file(place, b"second", new=True)
    with (
        pytest.raises(FileError, match="late: there is such a file already"),
        replaced(tmp_path / "late", new=True) as out,
    ):
        out.write(b"second")
        (tmp_path / "late").write_bytes(b"first")
    assert [(tmp_path / name).read_bytes() for name in ("x", "late")] == [b"first"] * 2
    assert names(tmp_path) == ["late", "x"]


def test_a_name_as_long_as_it_may_be(tmp_path):
    place = tmp_path / ("x" * 255)
    write_file(place, b"new")
    write_file(place, b"newer")
    assert place.read_bytes() == b"newer"
    assert names(tmp_path) == [place.name]


def test_what_cannot_be_renamed_is_copied_over(tmp_path, monkeypatch):
    """As where a file is a mount of its own."""
    place, link = tmp_path / "x", tmp_path / "hard"
    place.write_bytes(b"much longer than the new one")
    link.hardlink_to(place)

    def busy(*_):
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(os, "replace", busy)
    write_file(place, b"new")
    assert place.read_bytes() == link.read_bytes() == b"new"
    assert names(tmp_path) == ["hard", "x"]


@AS_ROOT
@pytest.mark.parametrize(
    ("folder", "file", "said"),
    [
        (0o755, 0o666, "good; written"),  # the file is ours to write, the folder is not
        (0o777, 0o666, "good; written"),  # ... and the owner could not be kept
        (0o1777, 0o666, "good; written"),  # as in /tmp
        (0o777, 0o644, "cannot be written: Permission denied;" * 2),
        (0o755, None, "cannot be written: Permission denied;" * 2),
        (0o700, None, "cannot be written: Permission denied;" * 2),
    ],
)
def test_permissions_of_somebody_who_is_not_root(tmp_path, folder, file, said):
    for above in (tmp_path, *tmp_path.parents):  # pytest's own let nobody else in
        if above.stat().st_mode & 0o055 != 0o055 and above.owner() == "root":
            above.chmod(above.stat().st_mode | 0o055)
    inner = tmp_path / "folder"
    inner.mkdir()
    place = inner / "x"
    if file is not None:
        place.write_bytes(b"much longer than the new one")
        place.chmod(file)
    inner.chmod(folder)
    drop = "import tempfile; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    code = TELL.replace("before =", f"{drop}before =")
    assert child(code, place).replace("; ", ";").strip(";") == said.replace("; ", ";").strip(";")
    if "written;" in f"{said};" and file is not None and "denied" not in said:
        assert place.read_bytes() == b"new"
        assert (place.stat().st_uid, mode_of(place)) == (0, file)
    assert [path.name for path in inner.iterdir()] == ([] if file is None else ["x"])


@AS_ROOT
def test_a_read_only_disk(tmp_path):
    mounted = subprocess.run(
        ["unshare", "-m", "sh", "-c",
         'mount -t tmpfs -o ro none "$1" && exec "$2" -c "$3" "$1/x"',
         "sh", str(tmp_path), sys.executable, TELL],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr[:80]}")
    assert mounted.stdout.strip() == "; ".join(["cannot be written: Read-only file system"] * 2)


@AS_ROOT
def test_a_full_disk_and_a_mounted_file(tmp_path):
    """Also where the new content must be copied over what is there: then that stays whole."""
    code = WRITE + (
        "place = Path(sys.argv[1], 'x')\n"
        "print(tell(write_file, place, b'old'), tell(write_file, place, bytes(1 << 20)),"
        " place.read_bytes(), os.listdir(sys.argv[1]), sep='; ')\n"
        "small = Path(sys.argv[2])\n"
        "print(tell(write_file, small, b'old'), tell(write_file, small, bytes(1 << 20)),"
        " small.read_bytes(), os.path.ismount(small))"
    )
    (tmp_path / "disk").mkdir()
    (tmp_path / "file").touch()
    script = (
        'mount -t tmpfs -o size=64k none "$1/disk" && touch "$1/disk/y" && '
        'mount --bind "$1/disk/y" "$1/file" && exec "$2" -c "$3" "$1/disk" "$1/file"'
    )
    run = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(tmp_path), sys.executable, code],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    if run.returncode:
        pytest.skip(f"nothing can be mounted here: {run.stderr[-80:]}")
    full = "cannot be written: No space left on device"
    disk, file = run.stdout.splitlines()
    assert disk in (f"written; {full}; b'old'; {order}" for order in ("['x', 'y']", "['y', 'x']"))
    assert file == f"written {full} b'old' True"


# Links


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    place = tmp_path / "real" / "x"
    place.write_bytes(b"old")
    place.chmod(0o640)
    (tmp_path / "link").symlink_to("real/x")
    (tmp_path / "second").symlink_to("link")
    write_file(tmp_path / "second", b"new")
    assert place.read_bytes() == b"new" and mode_of(place) == 0o640
    assert (tmp_path / "link").is_symlink() and (tmp_path / "second").is_symlink()
    assert names(tmp_path) == ["link", "real", "second"] and names(tmp_path / "real") == ["x"]


def test_a_dangling_link_makes_its_target(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real/x")
    check_place(tmp_path / "link")
    assert names(tmp_path / "real") == []
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "x").read_bytes() == b"new"
    (tmp_path / "lost").symlink_to("nowhere/x")
    with pytest.raises(FileError, match=r"lost: cannot be written: there is no directory .*nowh"):
        write_file(tmp_path / "lost", b"new")


# What is written through


def test_devices_stay_devices():
    before = Path("/dev/null").stat()
    for write in (lambda: check_place(Path("/dev/null")), lambda: save_array(Path("/dev/null"))):
        write()
        after = Path("/dev/null").stat()
        assert (after.st_rdev, after.st_ino, after.st_mode) == (
            before.st_rdev, before.st_ino, before.st_mode,
        )  # fmt: skip
    assert not list(Path("/dev").glob(".null.*"))


@AS_ROOT
def test_a_device_node_of_its_own(tmp_path):
    place = tmp_path / "node"
    try:
        os.mknod(place, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        place.open("wb").close()
    except OSError:
        pytest.skip("no devices can be made here")
    (tmp_path / "link").symlink_to("node")
    for name in ("node", "link"):
        save_array(tmp_path / name)
        assert stat.S_ISCHR(place.stat().st_mode)
    assert names(tmp_path) == ["link", "node"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("write", ["bytes", "save", "savez"])
def test_a_device_that_is_full(write):
    with pytest.raises(FileError, match="/dev/full: cannot be written: No space left on device"):
        {"bytes": lambda p: write_file(p, b"x"), "save": save_array, "savez": save_arrays}[write](
            Path("/dev/full")
        )
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


VALUES = np.arange(300_000, dtype=np.float32).reshape(3, -1)


def save_array(path):
    with replaced(path) as out:
        np.save(out, VALUES)


def save_arrays(path):
    with replaced(path) as out:
        np.savez(out, a=VALUES, b=VALUES[0])


def read_from(path, found):
    with path.open("rb") as file:
        found.append(file.read())


@pytest.mark.parametrize("save", [save_array, save_arrays])
def test_a_pipe_is_written_through(tmp_path, save):
    place, found = tmp_path / "pipe", []
    os.mkfifo(place)
    check_place(place)
    reader = threading.Thread(target=read_from, args=(place, found))
    reader.start()
    while True:
        try:
            save(place)
            break
        except FileError as error:  # the reader is not there yet
            assert error.problem == "cannot be written: nobody reads this pipe"
    reader.join(60)
    loaded = np.load(io.BytesIO(found[0]))
    assert np.array_equal(loaded if save is save_array else loaded["a"], VALUES)
    assert stat.S_ISFIFO(place.stat().st_mode) and names(tmp_path) == ["pipe"]


def test_a_pipe_without_a_reader_is_a_sentence(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="pipe: cannot be written: nobody reads this pipe"):
        write_file(tmp_path / "pipe", b"x")


def test_checking_does_not_end_a_pipe(tmp_path):
    place = tmp_path / "pipe"
    os.mkfifo(place)
    reader = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    check_place(place)
    writer = os.open(place, os.O_WRONLY)
    with pytest.raises(BlockingIOError):  # nothing yet, and not the end
        os.read(reader, 1)
    os.close(writer)
    os.close(reader)


def test_a_reader_that_leaves(tmp_path):
    read, write = os.pipe()
    os.close(read)
    try:
        with pytest.raises(FileError, match=f"/dev/fd/{write}: cannot be written: Broken pipe"):
            write_file(Path(f"/dev/fd/{write}"), b"x")
        os.fstat(write)  # the descriptor is still ours
    finally:
        os.close(write)


@pytest.mark.parametrize("form", ["/dev/fd/{}", "/proc/self/fd/{}", "/proc/{pid}/fd/{}"])
def test_a_descriptor_is_written_through(tmp_path, form):
    """As a shell's >(process) gives one; of a regular file what is there is kept, as by >>."""
    place = tmp_path / "x"
    place.write_bytes(b"old ")
    number = place.stat().st_ino
    descriptor = os.open(place, os.O_WRONLY | os.O_APPEND)
    path = Path(form.format(descriptor, pid=os.getpid()))
    try:
        check_place(path)
        write_file(path, b"new")
        os.write(descriptor, b" and newer")
    finally:
        os.close(descriptor)
    assert place.read_bytes() == b"old new and newer"
    assert place.stat().st_ino == number and names(tmp_path) == ["x"]
    with pytest.raises(FileError, match="Bad file descriptor"):
        check_place(path)
    with pytest.raises(FileError, match="Bad file descriptor"):
        write_file(path, b"x")


def test_a_descriptor_that_is_only_read(tmp_path):
    (tmp_path / "x").touch()
    descriptor = os.open(tmp_path / "x", os.O_RDONLY)
    with pytest.raises(FileError, match="cannot be written: it is open for reading only"):
        check_place(Path(f"/dev/fd/{descriptor}"))
    os.close(descriptor)


def test_standard_output(tmp_path):
    code = WRITE + "print(tell(write_file, Path('/dev/stdout'), b'through '))"
    assert child(code) == "through written"
    ends = socket.socketpair()  # cannot be opened by its name
    with ends[0], ends[1]:
        process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=ends[1])
        assert process.wait(60) == 0
        assert ends[0].recv(100) == b"through written\n"


# What is refused


def test_sentences_for_what_is_never_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
        for path, said in {
            "socket": "socket: is a socket, expected the name",
            ".": "is a directory, expected the name of a file to write",
            "/": "/: is a directory",
            "none/x": "none/x: cannot be written: there is no directory",
            "x" * 256: "cannot be written: File name too long",
            "loop": "loop: cannot be written: Too many levels of symbolic links",
            "x\0y": r"is no path: embedded null",
            "x\ud800": r"is no path: 'utf-8' codec",
        }.items():
            if path == "loop":
                Path("loop").symlink_to("loop")
            for call in (check_place, lambda path: write_file(path, b"x")):
                with pytest.raises(FileError, match=said) as caught:
                    call(Path(path))
                assert "\n" not in str(caught.value) and "None" not in str(caught.value)
    assert names(tmp_path) == ["loop", "socket"]


@AS_ROOT
def test_block_devices_are_refused(tmp_path):
    place = tmp_path / "disk"
    try:
        os.mknod(place, 0o600 | stat.S_IFBLK, os.makedev(7, 250))
    except OSError:
        pytest.skip("no devices can be made here")
    for call in (check_place, lambda path: write_file(path, b"x")):
        with pytest.raises(FileError, match="disk: is a block device, and writing would destroy"):
            call(place)
    assert names(tmp_path) == ["disk"]


def test_folders(tmp_path):
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "b"):
        with pytest.raises(FileError, match="cannot be made: there is a file where"):
            make_folder(path)
    with pytest.raises(FileError, match="cannot be made: embedded null"):
        make_folder(Path("x\0y"))


def test_a_reason_is_never_none():
    assert reason(OSError(28, None)) == "No space left on device"
    assert reason(OSError("8 requested and 0 written")) == "8 requested and 0 written"
    assert reason(OSError()) == "OSError"
    assert reason(OSError(28, "full")) == "full"


@pytest.mark.parametrize("save", ["save_array", "save_arrays"])
def test_a_limit_of_the_size_of_files(tmp_path, save):
    (tmp_path / "x").write_bytes(b"old")
    code = f"""
import resource, sys
from pathlib import Path
from core.errors import FileError
from tests.core.test_files import {save}
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    {save}(Path(sys.argv[1]))
except FileError as error:
    print(error.problem)
"""
    assert child(code, tmp_path / "x") == "cannot be written: File too large"
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 100_000
    assert (tmp_path / "x").read_bytes() == b"old"
    assert names(tmp_path) == ["x"]


# Leftovers

HALF = """
import sys, threading
from pathlib import Path
from core.files import replaced
with replaced(Path(sys.argv[1])) as out:
    out.write(b"half")
    print("half", flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_writer_left_goes_with_the_next(tmp_path):
    place = tmp_path / "x"
    place.write_bytes(b"old")
    process = subprocess.Popen(
        [sys.executable, "-c", HALF, str(place)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout.readline() == b"half\n"
    write_file(place, b"meanwhile")
    assert len(names(tmp_path)) == 2, "of a process that runs, it stays"
    process.kill()
    process.communicate(timeout=60)
    assert len(names(tmp_path)) == 2 and place.read_bytes() == b"meanwhile"
    write_file(place, b"new")
    assert names(tmp_path) == ["x"] and place.read_bytes() == b"new"


def test_leftovers_of_others_stay(tmp_path):
    kept = [f".x.{os.getppid()}.part", f".x.y.{DEAD}.part", f".z.{DEAD}-1.part", ".x.1-q.part"]
    for name in (*kept, f".x.{DEAD}.part", f".x.{DEAD}-7.part", f".x.{os.getpid()}-0.part"):
        (tmp_path / name).write_text("half")
    (tmp_path / f".x.{DEAD}-8.part").mkdir()  # no file's
    write_file(tmp_path / "x", b"new")
    assert names(tmp_path) == sorted([*kept, "x", f".x.{DEAD}-8.part"])


def test_two_writers_of_one_process(tmp_path):
    place = tmp_path / "x"
    with replaced(place) as first:
        first.write(b"first")
        write_file(place, b"second")
        first.write(b" is last")
    assert place.read_bytes() == b"first is last"
    assert names(tmp_path) == ["x"]


def test_a_thread_that_has_not_finished_when_the_program_ends(tmp_path):
    code = HALF.replace("with replaced", "def work():\n  with replaced").replace(
        "\n    ", "\n      "
    )
    code = code.replace('    print("half", flush=True)', "    begun.set()")
    code = code.replace("def work", "begun = threading.Event()\ndef work")
    code += "threading.Thread(target=work, daemon=True).start()\nbegun.wait(30)\nprint('end')\n"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "x")],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout.read() == b"end\n"
    assert process.wait(60) == 0
    process.stdin.close()
    assert names(tmp_path) == []


ENDED = HALF.replace("import sys", "import sys\nfrom desktop.terminal.signals import ends_in_order")
ENDED = ENDED.replace("with replaced", "@ends_in_order\ndef main():\n  with replaced")
ENDED = ENDED.replace("\n    ", "\n      ") + "sys.exit(main())\n"
CODES = {signal.SIGTERM: 143, signal.SIGHUP: 129}


@pytest.mark.parametrize("numbers", [(n,) for n in CODES] + [tuple(CODES)] + [tuple(CODES)[::-1]])
def test_a_signal_leaves_nothing_half(tmp_path, numbers):
    process = subprocess.Popen(
        [sys.executable, "-c", ENDED, str(tmp_path / "x")],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout.readline() == b"half\n"
    for number in numbers:
        process.send_signal(number)
    _, err = process.communicate(timeout=60)
    ends = {CODES[number] for number in numbers}
    if len(numbers) > 1:  # the second while the interpreter itself ends: to a shell, the same
        ends |= {-number for number in numbers}
    assert process.returncode in ends
    assert err.count(b"llm-lite: ") == 1 and b"Traceback" not in err
    assert names(tmp_path) == []


def test_a_signal_that_was_ignored_stays_so(tmp_path):
    process = subprocess.Popen(
        ["nohup", sys.executable, "-c", ENDED, str(tmp_path / "x")],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout.readline() == b"half\n"
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=60)
    assert (tmp_path / "x").read_bytes() == b"half"


def test_a_full_disk_leaves_no_descriptor_open(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    def descriptors():
        own = Path("/dev/fd")
        return len(list(own.iterdir())) if own.exists() else 0

    before = descriptors()
    for call in ("write", "fsync", "replace", "open"):
        with monkeypatch.context() as patch:
            patch.setattr(files.os, call, full)
            with pytest.raises(FileError, match="x: cannot be written: No space left"):
                write_file(tmp_path / "x", b"new")
        assert names(tmp_path) == []
    assert descriptors() == before
