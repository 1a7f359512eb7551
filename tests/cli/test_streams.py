"""Standard streams and limits as hostile as a shell can make them: a sentence and an exit code."""

import ast
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from llm_lite.cli.main import main
from llm_lite.cli.terminal import endings
from tests.children import PATIENCE
from tests.cli.terminal_runs import GREEDY, NUMPY, ROOT, sentence
from tests.paths import program_files


def run(*words, shell="", limits=(), env=None):
    """`llm-lite words` with what a shell appends (`>&-`) and resource limits in bytes."""

    def limit():
        for what, size in limits:
            resource.setrlimit(what, (size, size))

    command = ["sh", "-c", f'exec "$@" {shell}', "sh", sys.executable, "-m", "llm_lite.cli.entry"]
    process = subprocess.run(
        [*command, *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        env=os.environ | (env or {}),
        preexec_fn=limit,
        timeout=PATIENCE,
        check=False,
    )
    assert b"Traceback" not in process.stderr, process.stderr
    assert b"Exception ignored" not in process.stderr, process.stderr
    return process


def chat(model, *more, **options):
    return run("chat", model, *NUMPY, *GREEDY, "--max-new-tokens", "4", *more, **options)


def told(process):
    (line,) = process.stderr.decode().splitlines()
    assert line.startswith("llm-lite: ")
    return line


@pytest.mark.parametrize("words", [["models", "list"], ["models", "list", "--json"], ["--help"]])
def test_a_closed_output(words):
    process = run(*words, shell=">&-")
    assert process.returncode == 1
    assert "standard output cannot be written: Bad file descriptor" in told(process)


def test_a_closed_output_of_an_answer(tiny_llama):
    process = chat(tiny_llama, "-p", "Hello", shell=">&-")
    assert process.returncode == 1
    assert "standard output cannot be written" in told(process)


def test_a_closed_input(tiny_llama):
    process = chat(tiny_llama, shell="<&-")
    assert process.returncode == 1
    assert "standard input cannot be read: Bad file descriptor" in told(process)


@pytest.mark.parametrize("shell", ["2>&-", "2>/dev/full"])
def test_nowhere_to_complain(tiny_llama, shell):
    process = chat(tiny_llama, "-p", "Hello", shell=shell)
    assert (process.returncode, process.stderr) == (0, b"")
    assert process.stdout
    assert run("chat", "/no/such.gguf", "-p", "x", shell=shell).returncode == 1
    assert run("chat", "--nonsense", shell=shell).returncode == 2


def test_all_closed(tiny_llama):
    assert chat(tiny_llama, shell="<&- >&- 2>&-").returncode == 1


def test_descriptors_of_closed_streams_are_no_files(tiny_llama, tmp_path):
    """Else what a library prints would end in the file that is written."""
    out = tmp_path / "x.npy"
    words = ("logits", tiny_llama, *NUMPY, "--text", "x", "--out", out)
    assert run(*words, shell="<&- >&- 2>&-").returncode == 0
    assert out.read_bytes().startswith(b"\x93NUMPY")


@pytest.mark.parametrize("words", [["models", "list"], ["--help"]])
def test_a_full_output(words):
    process = run(*words, shell=">/dev/full")
    assert process.returncode == 1
    assert "standard output cannot be written: No space left on device" in told(process)


def test_files_may_not_grow(tmp_path):
    process = run("models", "list", shell=f">{tmp_path}/out", limits=[(resource.RLIMIT_FSIZE, 10)])
    assert process.returncode == 1
    assert "standard output cannot be written: File too large" in told(process)


@pytest.mark.parametrize("megabytes", [150, 350, 520, 700])
@pytest.mark.parametrize("command", ["chat", "logits", "doctor"])
def test_little_memory(smollm2, tmp_path, command, megabytes):
    """Whatever fails first, and wherever: a library's import, a thread, the weights, the cache."""
    words = {
        "chat": ("chat", smollm2, "--backend", "cpu", "-p", "x", "--max-new-tokens", "2"),
        "logits": ("logits", smollm2, "--text", "x", "--out", tmp_path / "x.npy"),
        "doctor": ("doctor",),
    }[command]
    process = run(*words, limits=[(resource.RLIMIT_AS, megabytes << 20)])
    assert process.returncode in (0, 1), process.stderr
    if process.returncode:
        assert process.stderr.startswith(b"llm-lite: ")
    assert b"please report" not in process.stderr


NO_HOME = """
import os, pwd, sys

def nobody(*_):
    raise KeyError("no such user")

pwd.getpwuid = pwd.getpwnam = nobody
os.environ.clear()
os.environ["PATH"] = "/usr/bin:/bin"
sys.argv = ["llm-lite", *{words!r}]
from llm_lite.cli.entry import main
sys.exit(main())
"""


@pytest.mark.parametrize("words", [["models", "list"], ["doctor"], ["chat", "~/x.gguf"]])
def test_no_home_and_no_such_user(tmp_path, words):
    process = subprocess.run(
        [sys.executable, "-c", NO_HOME.format(words=words)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert process.returncode == (1 if "chat" in words else 0), process.stderr
    assert "Traceback" not in process.stderr
    assert ("the home directory is unknown" in process.stderr) == ("chat" in words)
    assert list(tmp_path.iterdir()) == [], "no folder called ~"


class Panic(BaseException):
    """As a library in Rust has them."""


@pytest.mark.parametrize("error", [ZeroDivisionError("by zero\x1b[2J"), Panic("unwrap"), Panic()])
def test_a_defect_is_a_sentence_and_its_traceback_is_kept(capsys, monkeypatch, tmp_path, error):
    def fail(arguments):
        raise error

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("llm_lite.cli.commands.models.run", fail)
    assert main(["models", "list"]) == endings.DEFECT
    text = sentence(capsys)
    assert "an internal error, please report it: " + type(error).__name__ in text
    assert "\x1b" not in text
    (kept,) = tmp_path.iterdir()
    assert str(kept) in text
    assert kept.read_text("utf-8").startswith("Traceback")
    monkeypatch.setenv(endings.PRINT_TRACEBACKS, "1")
    assert main(["models", "list"]) == endings.DEFECT
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), "there is not enough memory"),
        (RecursionError("maximum recursion depth exceeded"), "nests too deep"),
        (OSError(30, "Read-only file system", "/x/y"), "/x/y: Read-only file system"),
        (OSError("nothing known"), "nothing known"),
        (RuntimeError("can't start new thread"), "there is not enough memory"),
        (ImportError("x.so: failed to map segment from shared object"), "not enough memory"),
    ],
)
def test_what_the_system_refuses(capsys, monkeypatch, error, expected):
    def fail(arguments):
        raise error

    monkeypatch.setattr("llm_lite.cli.commands.models.run", fail)
    assert main(["models", "list"]) == 1
    assert expected in sentence(capsys)


def test_usage_quotes_what_was_typed_as_one_line(capsys):
    with pytest.raises(SystemExit):
        main(["chat", "--backend", "\x1b[2J\n\udcff" + "x" * 5000])
    err = capsys.readouterr().err
    assert "\\x1b[2J" in err and "\x1b" not in err
    assert "\\xff" in err or "\\udcff" in err
    assert len(err.splitlines()[-1]) < 600


def test_nothing_else_prints():
    """`llm_lite.cli.terminal.output` is the only door to standard output and standard error."""
    writers = {"print", "input"}
    found = []
    for path in program_files():
        if path.name in ("output.py", "streams.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in writers:
                found.append(f"{path.name}:{node.lineno}")
            written = isinstance(node, ast.Attribute) and node.attr in ("write", "writelines")
            if written and ast.unparse(node.value).startswith(("sys.stdout", "sys.stderr")):
                found.append(f"{path.name}:{node.lineno}")
    assert found == []


def test_what_a_file_says_reaches_the_terminal_escaped(tmp_path, capsys):
    name = "model\x1b]0;mine\x07\n.gguf"
    path = Path(tmp_path / name)
    path.write_bytes(b"GGUF")
    assert main(["chat", str(path), "-p", "x"]) == 1
    assert "model\\x1b]0;mine\\x07\\n.gguf" in sentence(capsys)
