"""The command line: words by strategies that are derived from the parser's own options.

Each case runs `cli.main.main` in a folder of its own with tiny models and odd files in it, with
standard streams of several kinds. Paths are names within this folder.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.configuration import set_hypothesis_home_dir

from llm_lite.cli import main
from llm_lite.cli.parser import at_least
from llm_lite.core.errors import RequestError
from tests.fuzz.door import Case, Door, Result, problem_of_sentence
from tests.fuzz.mutations import TEXTS, special_file

BLOCK = 50  # cases that hypothesis makes from one seed
CODES = (0, 1, 2, main.INTERRUPTED)
_FILES = ("text.txt", "empty.txt", "latin1.txt", "broken.gguf", "cut.json", "special", "notes.json")
_MODELS = ("tiny.gguf", "hf", "huge.gguf", "gemma", "./tiny.gguf")
_OUT = (
    "out.npy",
    "out.npz",
    "new",
    "there",
    "there/x",
    "no/such/place",
    "tiny.gguf",
    "",
    ".",
    "link",
)
_OUT += (
    "x" * 300,
    "full",
    "\udcff",
    "a\x00b",
    "../beside",
    "pipe/x",
    "out\x1b[2J",
    "~/x",
    "-",
    "--",
)
_NUMBERS = (
    "0",
    "1",
    "2",
    "-1",
    "007",
    "٣",
    "1_000",
    " 1",
    "1e3",
    "0.5",
    "nan",
    "inf",
    "-inf",
    "1e999",
)
_NUMBERS += (str(2**31), str(2**64), "9" * 4500, "", "x", "0x10", "1.", "-0", "64", "300")
# Words that make a run long are left out: what they ask for is what they get.
_LONG = {"--benchmark-modes"}
_BOUNDED = {"--new-tokens", "--prompt-tokens", "--depth", "--repeat", "--conversation"}
_SHORT_BENCH = ["--prompt-tokens", "4", "--new-tokens", "2", "--repeat", "1", "--conversation", "0"]
_COMMANDS_WITH_A_WINDOW = ("desktop",)


def words() -> st.SearchStrategy[list[str]]:
    """A command with options that it has, or, more rarely, with others."""
    commands = {
        name: parser for name, parser in subparsers().items() if name not in _COMMANDS_WITH_A_WINDOW
    }
    known = st.sampled_from(sorted(commands)).flatmap(lambda name: _command(name, commands[name]))
    wild = st.sampled_from(sorted(commands)).flatmap(
        lambda name: st.lists(
            st.sampled_from((*TEXTS, *_NUMBERS, "-h", "--version", "--json"))
        ).map(lambda rest: [name, *rest])
    )
    rare = st.sampled_from((["--version"], ["-h"], ["--help"], ["models"], ["chat", "-h"]))
    return st.sampled_from((0,) * 8 + (1, 2)).flatmap(lambda kind: (known, wild, rare)[kind])


def subparsers() -> dict[str, argparse.ArgumentParser]:
    parser = main._parser()
    (action,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return dict(action.choices)


def _command(name: str, parser: argparse.ArgumentParser) -> st.SearchStrategy[list[str]]:
    given_: list[st.SearchStrategy[list[str]]] = []
    exclusive = {a for group in parser._mutually_exclusive_groups for a in group._group_actions}
    for action in parser._actions:
        if action in exclusive or isinstance(action, argparse._HelpAction):
            continue
        if not _LONG.isdisjoint(action.option_strings):
            continue
        given_.append(_given(action))
    for group in parser._mutually_exclusive_groups:
        given_.append(
            st.sampled_from(group._group_actions).flatmap(lambda a: _given(a, always=True))
        )
    return st.tuples(*given_).map(lambda parts: [name, *(word for part in parts for word in part)])


def _given(action: argparse.Action, *, always: bool = False) -> st.SearchStrategy[list[str]]:
    """The words of an action: nothing, or its name and a value; now and then twice or without."""
    value = _value(action)
    if not action.option_strings:
        return value.map(lambda text: [text])
    name = st.sampled_from(action.option_strings)
    if action.nargs == 0:
        said = name.map(lambda option: [option])
    else:
        said = st.one_of(
            st.tuples(name, value).map(list),
            st.tuples(name, value).map(lambda pair: [f"{pair[0]}={pair[1]}"]),
        )
    often = 7 if always or action.required else 2
    return st.sampled_from((1,) * often + (0,) * (8 - often)).flatmap(
        lambda present: said if present else st.just([])
    )


def _value(action: argparse.Action) -> st.SearchStrategy[str]:
    """Mostly what the option is for: its choices, its type, what its name says."""
    fit = st.sampled_from(_fitting(action))
    if not _BOUNDED.isdisjoint(action.option_strings):
        return fit
    return st.sampled_from((0,) * 5 + (1, 2)).flatmap(
        lambda kind: (fit, st.sampled_from(_NUMBERS), st.sampled_from(_unsurprising()))[kind]
    )


def _unsurprising() -> tuple[str, ...]:
    """Odd texts but those that name a place outside the case's folder."""
    return tuple(text for text in TEXTS if not text.startswith(("/", "../..", "..")))


def _fitting(action: argparse.Action) -> tuple[str, ...]:
    options = set(action.option_strings)
    if action.choices:
        return tuple(map(str, action.choices))
    if not _BOUNDED.isdisjoint(options):
        return ("0", "1", "2", "8", "-1", "")
    if options & {"--out"} or action.dest in ("target", "destination"):
        return _OUT
    if options & {"--threads"}:
        return ("0", "1", "2", "3")
    if options & {"--tokens"}:
        return ("1,2,3", "1", "", "1,,2", "300,1", "-1", "1,2," * 50, "99999999999", " 1 , 2 ")
    if options & {"--layers", "--heads"}:
        return ("0", "0,1", "0-1", "1-0", "0-", "-", "9", "0,0,0", "", "0-99999999999")
    if options & {"--kv"} or action.dest == "reference_kv":
        return (
            "fp16",
            "fp32,int8",
            "int8",
            "int4",
            "int8,int4",
            "fp32",
            "a,b",
            ",",
            "fp16,fp16,fp16",
        )
    if options & {"--config"}:
        return ("E2B", "cut.json", "notes.json", "no", "e1.96b", "special", "hf", "")
    if options & {"--mode"}:
        return ("int4", "int8", "fp16", "fp32", "as-stored", "x")
    if action.dest in ("model", "source", "reference"):
        return (*_MODELS, *_MODELS, *_FILES, "no-such-model")
    if action.dest in ("text_file", "file", "calibrate"):
        return (*_FILES, "text.txt", "text.txt", "hf", "no.txt")
    if action.type in (float, int) or isinstance(action.type, at_least):
        return ("0", "1", "2", "16", "32", "0.5")
    return ("the end", "a", *TEXTS[:12])


@cache
def block(number: int) -> list[list[str]]:
    """What hypothesis draws from a seed, always the same."""
    drawn: list[list[str]] = []

    @seed(number)
    @settings(
        max_examples=BLOCK,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(words())
    def draw(example: list[str]) -> None:
        drawn.append(example)

    draw()
    return drawn


# Commands that measure for many seconds, or serve until they are ended: their words are read only.
_LASTING = ("kernels", "serve")


def words_of(case: Case) -> list[str]:
    drawn = block(case.number // BLOCK)
    found = list(drawn[case.number % BLOCK % len(drawn)])
    if found[0] in subparsers() and found[0] not in ("slice", "synth", "models", "doctor"):
        options = subparsers()[found[0]]._option_string_actions
        if found[0] == "bench":  # what is said later counts
            found[1:1] = _SHORT_BENCH
        if "--max-new-tokens" in options:
            found += ["--max-new-tokens", "3"]
        if "--backend" in options and case.rng.random() < 0.98:
            found += ["--backend", case.rng.choice(("cpu", "numpy"))]
        if found[0] in _LASTING:
            found.append("--help")
    return found


@cache
def material() -> Path:
    """Models and files that cases use, copied into each folder."""
    from tests.fuzz import whole
    from tests.fuzz.doors import config, gguf
    from tests.make_gguf import build_gguf, llama_metadata, llama_tensors
    from tests.make_huggingface import gemma3n_tensors, write_folder
    from tests.make_huggingface import llama_tensors as hf_tensors

    place = Path.cwd() / "tmp" / "material"
    place.mkdir()
    metadata, tensors = llama_metadata(whole.TINY), dict(llama_tensors(whole.TINY))
    (place / "tiny.gguf").write_bytes(build_gguf(metadata, tensors))
    rng = random.Random(7)
    for name in tensors:
        tensors[name] = gguf.quantized("f32", _huge(tensors[name].shape, rng))
    (place / "huge.gguf").write_bytes(build_gguf(metadata, tensors))
    (place / "broken.gguf").write_bytes((place / "tiny.gguf").read_bytes()[:5000])
    write_folder(place / "hf", config.LLAMA, hf_tensors(config.LLAMA))
    write_folder(place / "gemma", config.GEMMA, gemma3n_tensors(config.GEMMA))
    (place / "text.txt").write_text("The end of the line. " * 20)
    (place / "empty.txt").touch()
    (place / "latin1.txt").write_bytes(b"caf\xe9")
    (place / "cut.json").write_text('{"skip": [5], "feed_forward": 9}')
    (place / "notes.json").write_text("[1, 2")
    (place / "there").mkdir()
    return place


def _huge(shape: tuple[int, ...], rng: random.Random) -> Any:
    values = np.random.default_rng(rng.getrandbits(32)).normal(0, 1e30, shape)
    return values.astype(np.float32)


def use(case: Case) -> Result:
    rng, folder = case.rng, case.folder / "a" / "b" / "here"  # so that .. is its own, too
    shutil.copytree(material(), folder)
    (folder / "link").symlink_to(folder / "linked.npy")
    if rng.random() < 0.05:
        special_file(folder / "special", rng)
    os.chdir(folder)
    os.environ["HOME"] = str(folder)  # what ~ is, stays its own
    for kind in ("CACHE", "CONFIG", "DATA", "STATE"):
        os.environ[f"XDG_{kind}_HOME"] = str(case.folder / "user" / kind.lower())
    before = sorted(case.folder.rglob("*"))
    argv = words_of(case)
    (case.folder / "argv.json").write_text(json.dumps(argv))
    with streams(case.folder, rng) as (out, err):
        code = run(argv)
    check(argv, code, out, err)
    after = [path for path in case.folder.rglob("*") if path not in before]
    parts = [str(path) for path in after if path.name.endswith((".part", ".tmp"))]
    assert not parts, f"left behind by {argv}: {parts}"
    return Result(list(_arrays(after)), warned=bool(err()) and code == 0)


def run(argv: Sequence[str]) -> int:
    try:
        return main.main(argv)
    except SystemExit as error:  # argparse
        return error.code if isinstance(error.code, int) else 1


@contextlib.contextmanager
def streams(folder: Path, rng: random.Random) -> Iterator[tuple[Any, Any]]:
    """Standard streams that are files; input of several kinds, output that may be full."""
    given_ = rng.choice(
        (b"", b"the end\n", b"caf\xe9\n", b"\x00" * 9, "한국어".encode(), b"a " * 9000)
    )
    (folder / "stdin").write_bytes(given_)
    full = rng.random() < 0.05
    names = ("stdin", "stdout", "stderr")
    places = [folder / "stdin", Path("/dev/full") if full else folder / "stdout", folder / "stderr"]
    kept, saved = [os.dup(i) for i in range(3)], [getattr(sys, name) for name in names]
    for i, place in enumerate(places):
        flags = os.O_RDONLY if i == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        descriptor = os.open(place, flags, 0o600)
        os.dup2(descriptor, i)
        os.close(descriptor)
        raw = io.FileIO(i, "r" if i == 0 else "w", closefd=False)
        buffered = io.BufferedReader(raw) if i == 0 else io.BufferedWriter(raw)
        errors = "backslashreplace" if i == 2 else "strict"
        setattr(sys, names[i], io.TextIOWrapper(buffered, "utf-8", errors, write_through=i == 2))
    read = [
        lambda p=place: "" if p.name == "full" else p.read_text("utf-8", "replace")
        for place in places
    ]
    try:
        yield read[1], read[2]
    finally:
        for i, name in enumerate(names):
            with contextlib.suppress(OSError, ValueError):
                getattr(sys, name).flush()
            setattr(sys, name, saved[i])
            os.dup2(kept[i], i)
            os.close(kept[i])


def check(argv: list[str], code: int, out: Any, err: Any) -> None:
    said = err()
    assert code in CODES, f"exit code {code} of {argv}"
    assert "Traceback" not in said + out(), f"{argv}: {said[-800:]}"
    if code == 1 and (said or out()):
        if argv[:1] == ["verify"] and not said:  # what it found is its result
            said = "".join(f"llm-lite: {line}\n" for line in out().splitlines())
        last = said.strip().split("\n")[-1]
        assert last.startswith("llm-lite: "), f"{argv}: {last!r}"
        wrong = problem_of_sentence(last)
        assert not wrong, f"{wrong}: {last!r} of {argv}"
        raise RequestError(last)
    if code == 2:
        raise RequestError("wrong usage, as argparse says")


def _arrays(paths: Sequence[Path]) -> Iterator[Any]:
    """What `logits` and `attention` wrote, whatever they were told to call it."""
    for path in paths:
        if path.is_file() and path.read_bytes()[:2] in (b"\x93N", b"PK"):
            loaded = np.load(path)
            if isinstance(loaded, np.lib.npyio.NpzFile):
                yield from (loaded[name] for name in loaded.files)
                loaded.close()
            else:
                yield loaded


def prepare() -> None:
    from tests.fuzz import whole

    whole.prepare()
    material()
    set_hypothesis_home_dir(Path.cwd() / "tmp")
    for name in main._COMMANDS.values():
        if name.startswith("llm_lite.cli"):
            __import__(name)
    block(0)


_MEMORY = (
    1 << 30
)  # bytes: without a name it is the default model that is loaded, as floats by NumPy
DOOR = Door("cli", use, prepare, memory_bytes=_MEMORY)
