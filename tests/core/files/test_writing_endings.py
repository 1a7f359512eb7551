"""The door for writing files: what is half made goes, however a process ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.files import writing
from llm_lite.core.files.folders import NewFolder
from llm_lite.core.files.writing import replaced, write_file
from tests.children import PATIENCE
from tests.core.files.writing_runs import ROOT, names

DEAD = 2**22 + 17  # beyond the largest number that a process may have

HALF = """
import sys, threading
from pathlib import Path
from llm_lite.core.files.writing import replaced
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
    process.communicate(timeout=PATIENCE)
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


def test_two_writers_of_one_process(tmp_path, monkeypatch):
    place = tmp_path / "x"
    monkeypatch.chdir(tmp_path)
    with replaced(place) as first:
        first.write(b"first")
        write_file(Path("x"), b"second")
        first.write(b" is last")
    assert place.read_bytes() == b"first is last"
    assert names(tmp_path) == ["x"]
    with NewFolder(tmp_path / "v") as folder, NewFolder(Path("v")) as other:
        folder.write("a", b"first")
        other.write("a", b"second")
        folder.put()
        with pytest.raises(FileError, match="v: exists already"):
            other.put()
    assert (tmp_path / "v" / "a").read_bytes() == b"first"
    assert names(tmp_path) == ["v", "x"]


def test_a_thread_that_has_not_finished_when_the_program_ends(tmp_path):
    code = HALF.replace("with replaced", "def work():\n  with replaced").replace(
        "\n    ", "\n      "
    )
    code = code.replace('    print("half", flush=True)', "    begun.set()")
    code = code.replace("def work", "begun = threading.Event()\ndef work")
    code += "threading.Thread(target=work, daemon=True).start()\nbegun.wait()\nprint('end')\n"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "x")],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout.read() == b"end\n"
    assert process.wait(PATIENCE) == 0
    process.stdin.close()
    assert names(tmp_path) == []


ENDED = HALF.replace(
    "import sys", "import sys\nfrom llm_lite.cli.terminal.interrupts import ends_in_order"
)
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
    _, err = process.communicate(timeout=PATIENCE)
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
    process.communicate(timeout=PATIENCE)
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
            patch.setattr(writing.os, call, full)
            with pytest.raises(FileError, match="x: cannot be written: No space left"):
                write_file(tmp_path / "x", b"new")
        assert names(tmp_path) == []
    assert descriptors() == before
