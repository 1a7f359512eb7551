"""`llm-lite logits`: arrays, and places that cannot be written."""

import io
import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from llm_lite.cli.main import main
from tests.children import PATIENCE
from tests.cli.terminal_runs import NUMPY, sentence, spawn


def logits(model, out, *more):
    return main(["logits", str(model), *NUMPY, "--out", str(out), *more])


def test_logits(tiny_llama, tmp_path, capsys):
    out = tmp_path / "x.npy"
    ids = list(range(70, 140))  # more than one step takes
    assert logits(tiny_llama, out, "--tokens", ",".join(map(str, ids)), "--json") == 0
    report = json.loads(capsys.readouterr().out)
    rows = np.load(out)
    assert (rows.dtype, rows.shape) == (np.float32, (70, 300))
    assert (report["tokens"], report["shape"]) == (ids, [70, 300])
    assert (report["keys"], report["activations"], report["backend"]) == ("fp32", "a32", "numpy")
    assert list(tmp_path.iterdir()) == [out], "nothing is left beside it"
    text = tmp_path / "text.txt"
    text.write_text("on the sea", encoding="utf-8")
    assert logits(tiny_llama, tmp_path / "a.npy", "--text-file", str(text)) == 0
    assert logits(tiny_llama, tmp_path / "b.npy", "--text", "on the sea") == 0
    assert np.array_equal(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"))


BAD_LOGITS = {
    "--tokens: expected numbers": ("--tokens", "1,two,3"),
    "--tokens: expected numbers with commas between, found ''": ("--tokens", ""),
    "token 300 is outside the vocabulary": ("--tokens", "1,300"),
    "token -1 is outside": ("--tokens=-1",),
    f"token {1 << 70} is outside": ("--tokens", str(1 << 70)),
    "the prompt is empty": ("--text", ""),
    "129 tokens, but the context holds 128": ("--tokens", ",".join(["5"] * 129)),
    "is not valid UTF-8 at byte 2": ("--text-file", "{tmp}/latin1.txt"),
    "no-such.txt: no such file": ("--text-file", "{tmp}/no-such.txt"),
}


@pytest.mark.parametrize("words", BAD_LOGITS)
def test_logits_of_nonsense(tiny_llama, tmp_path, capsys, words):
    (tmp_path / "latin1.txt").write_bytes(b"ab\xe4")
    more = [word.replace("{tmp}", str(tmp_path)) for word in BAD_LOGITS[words]]
    assert logits(tiny_llama, tmp_path / "x.npy", *more) == 1
    assert words in sentence(capsys)
    assert not (tmp_path / "x.npy").exists()


@pytest.mark.parametrize("place", ["no/such/x.npy", ".", "/", "folder", "n" * 300])
def test_a_place_that_cannot_be_written(tiny_llama, tmp_path, capsys, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    assert logits(tiny_llama, place, "--text", "x") == 1
    text = sentence(capsys)
    assert "cannot be written" in text or "is a directory" in text
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_full_disk_leaves_what_was_there(tiny_llama, tmp_path, capsys, monkeypatch):
    out = tmp_path / "x.npy"
    out.write_bytes(b"precious")

    def full(file, array):
        file.write(b"some")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    assert logits(tiny_llama, out, "--text", "x") == 1
    assert f"{out}: cannot be written: No space left on device" in sentence(capsys)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("x.npy", b"precious")]


def run(*arguments, **options):
    """In a process of its own: its exit code, and what it says on standard output and error."""
    process = spawn(*arguments, **options)
    out, err = process.communicate(timeout=PATIENCE)
    assert b"Traceback" not in err, err
    return process.returncode, out, err.decode()


@pytest.mark.parametrize("command", ["logits", "attention"])
def test_no_device_is_replaced(tiny_llama, command):
    before = Path("/dev/null").stat()
    words = (command, tiny_llama, *NUMPY, "--text", "on the sea")
    assert run(*words, "--out", "/dev/null")[0] == 0
    after = Path("/dev/null").stat()
    assert stat.S_ISCHR(after.st_mode)
    assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)
    if Path("/dev/full").exists():
        code, _, err = run(*words, "--out", "/dev/full")
        said = "llm-lite: /dev/full: cannot be written: No space left on device\n"
        assert (code, err) == (1, said)
        assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


@pytest.mark.parametrize("command", ["logits", "attention"])
def test_into_a_pipe(tiny_llama, tmp_path, command):
    """By /dev/stdout, by a shell's process substitution, and by a name."""
    words = (command, tiny_llama, *NUMPY, "--text", "on the sea")
    code, out, _ = run(*words, "--out", "/dev/stdout")
    assert code == 0
    np.load(io.BytesIO(out))
    read, write = os.pipe()
    process = spawn(*words, "--out", f"/dev/fd/{write}", pass_fds=[write])
    os.close(write)
    with open(read, "rb") as file:  # noqa: PTH123
        assert file.read() == out
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    os.mkfifo(tmp_path / "pipe")
    assert run(*words, "--out", tmp_path / "pipe")[::2] == (
        1, f"llm-lite: {tmp_path / 'pipe'}: cannot be written: nobody reads this pipe\n",
    )  # fmt: skip
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert run(*words, "--out", tmp_path / "pipe")[0] == 0
    assert len(out) < 1 << 16, "it fits into the pipe, so that nobody must read meanwhile"
    assert os.read(reader, 1 << 16) == out
    os.close(reader)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_what_was_there_keeps_its_mode(tiny_llama, tmp_path):
    place, link = tmp_path / "x.npy", tmp_path / "link"
    place.touch()
    place.chmod(0o640)
    link.symlink_to("x.npy")
    assert logits(tiny_llama, link, "--text", "x") == 0
    assert link.is_symlink() and stat.S_IMODE(place.stat().st_mode) == 0o640
    assert np.load(place).shape == np.load(link).shape
