"""Kills the program that carries out the queue of models, or the process of its stage, at random
moments of download, quantization and deletion; begins it again until it is done, and checks.

    python -m tests.cross.queue_kills [--times 50] [--rate BYTES]

A hub of ours on 127.0.0.1 has the bundled SmolLM2; `llm-lite models pull --quantize int8
--delete-source` is the program. After each kill no process may go on for long, and everything that
is listed must be whole. In the end the variant must be, byte for byte, the one of a run that nobody
disturbed, the source gone, and after `llm-lite models gc` nothing half may be left. Ends with 1
where anything was wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

from llm_lite.core.hub import catalog
from tests.hub.faults import Fault
from tests.hub.server import running_hub
from tests.paths import ROOT

REPO = "llm-lite-tests/SmolLM2-135M-Instruct-GGUF"
PULL = ("models", "pull", REPO, "--quantize", "int8", "--delete-source")
WORKER = "convert.stages.worker"
PATIENCE = 240.0  # seconds of a run that nobody disturbs, on a busy machine
ENDS = 20.0  # seconds in which the process of a killed program has ended
STAGES = ("download", "quantize", "delete source")
Whole = tuple[dict[str, str], dict[str, float]]  # of a run that nobody disturbed
MOST_KILLS = 3  # of one job


class Person:
    """Folders of a person of its own."""

    def __init__(self, folder: Path, hub: str) -> None:
        self.folder = folder
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("HF_")},
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder),
            "HF_HOME": str(folder / "hf"),
            "HF_ENDPOINT": hub,
            **{f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("DATA", "STATE")},
            **{f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CACHE", "CONFIG")},
        }

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "llm_lite", *words],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, *words: str) -> str:
        child = self.start(*words)
        out, err = child.communicate(timeout=PATIENCE)
        assert child.returncode == 0, f"{words}: {child.returncode}: {err.decode()[-2000:]}"
        return out.decode()

    @property
    def rows(self) -> list[dict]:
        return json.loads(self.run("models", "queue", "--json"))

    def models(self) -> dict[str, dict]:
        return {row["path"]: row for row in json.loads(self.run("models", "list", "--json"))}

    def variants(self) -> list[Path]:
        return sorted((self.folder / "data" / "llm-lite" / "models").glob("[!.]*"))


def kill_once(person: Person, stage: str, seconds: float, what: str) -> str:
    """Once it has been so long in a stage; the one that was hit, "" where all was over before."""
    child = person.start(*PULL)
    while child.poll() is None and stage_of(person) != stage:
        time.sleep(0.01)
    begun = time.monotonic()
    while time.monotonic() - begun < seconds and child.poll() is None:
        time.sleep(0.01)
    workers = workers_of(child.pid)
    if child.poll() is not None:
        child.communicate()
        return ""
    hit = stage_of(person)
    if what == "program":
        child.send_signal(signal.SIGKILL)
    else:
        for worker in workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()
        if not workers:  # between two stages
            child.send_signal(signal.SIGKILL)
    try:
        child.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{what} killed: the program does not end") from None
    _, alive = psutil.wait_procs(workers, timeout=ENDS)
    assert not alive, f"{what} killed: a stage goes on after {ENDS} s"
    return hit


def workers_of(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return [
            process
            for process in psutil.Process(pid).children(recursive=True)
            if any(WORKER in word for word in process.cmdline())
        ]
    return []


def stage_of(person: Person) -> str:
    """What the queue's file says that runs."""
    path = person.folder / "state" / "llm-lite" / "models" / "queue.json"
    if not path.exists():
        return "before"
    for job in json.loads(path.read_text())["jobs"]:
        for stage in job["row"]["stages"]:
            if stage["state"] not in ("done", "skipped"):
                return stage["stage"] if stage["state"] == "running" else f"before {stage['stage']}"
    return "after"


def check_listed(person: Person, source: int, variant: int) -> None:
    """What is listed is whole."""
    for path, row in person.models().items():
        assert not row["problem"], f"listed: {path}: {row['problem']}"
        expected = variant if row["origin"] == "llm-lite" else source
        assert row["size"] == expected, f"listed: {path} has {row['size']} of {expected} bytes"


def digest(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
    }


def check_end(person: Person, expected: dict[str, str]) -> None:
    rows = person.rows
    states = [stage["state"] for stage in rows[0]["stages"]]
    assert len(rows) == 1 and states == ["done"] * 3, f"rows: {rows}"
    variants = person.variants()
    assert len(variants) == 1, f"variants: {variants}"
    assert digest(variants[0]) == expected, "the variant differs from that of a whole run"
    person.run("models", "gc")
    left = [
        path
        for path in (person.folder / "hf" / "hub").rglob("*")
        if path.is_file() and path.suffix not in (".lock", ".TAG") and ".locks" not in path.parts
    ]
    assert not left, f"left in the cache: {left}"
    hidden = [path for path in variants[0].parent.iterdir() if path.name.startswith(".")]
    assert not hidden, f"left beside the variant: {hidden}"


def one(number: int, hub: str, size: int, whole: Whole) -> list[str]:
    """A job, killed up to MOST_KILLS times: the stages that were hit."""
    chance = random.Random(number)
    expected, seconds = whole
    hits = []
    with tempfile.TemporaryDirectory() as name:
        person = Person(Path(name), hub)
        for _ in range(chance.randint(1, MOST_KILLS)):
            if is_done(person):
                break
            what = chance.choice(["program", "stage"])
            stage = chance.choice(list(seconds))
            hit = kill_once(person, stage, chance.uniform(0.0, seconds[stage]), what)
            if hit:
                hits.append(f"{hit} ({what})")
            check_listed(person, size, sum_of(person))
        if not is_done(person):
            person.run(*PULL)
        check_end(person, expected)
    return hits


def undisturbed(hub: str) -> Whole:
    """What the variant is, and the seconds of each stage."""
    with tempfile.TemporaryDirectory() as name:
        person = Person(Path(name), hub)
        child = person.start(*PULL)
        seconds: Counter[str] = Counter()
        while child.poll() is None:
            begun, stage = time.monotonic(), stage_of(person)
            time.sleep(0.01)
            seconds[stage] += time.monotonic() - begun
        assert child.returncode == 0, child.communicate()[1].decode()
        child.communicate()
        return digest(person.variants()[0]), {stage: seconds[stage] for stage in STAGES}


def sum_of(person: Person) -> int:
    """Bytes of the variant as it lies there, by what its own manifest lists."""
    for folder in person.variants():
        files = json.loads((folder / "variant.json").read_text())["files"]
        return sum(files.values()) + (folder / "variant.json").stat().st_size
    return 0


def is_done(person: Person) -> bool:
    return stage_of(person) == "after"


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--first", type=int, default=1, help="the number of the first run")
    parser.add_argument("--rate", type=float, default=100e6, help="bytes/s of the hub")
    options = parser.parse_args(words)
    model = catalog.resolve(None)
    hits: Counter[str] = Counter()
    wrong = []
    with running_hub() as hub:
        hub.add(REPO, {model.name: model})
        hub.faults.append(Fault("", rate=options.rate))
        whole = undisturbed(hub.url)
        print("undisturbed:", {stage: round(s, 1) for stage, s in whole[1].items()}, flush=True)
        for number in range(options.first, options.first + options.times):
            try:
                found = one(number, hub.url, model.stat().st_size, whole)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                wrong.append(number)
                print(f"run {number}: {error}", flush=True)
                continue
            hits.update(found)
            print(f"run {number}: {', '.join(found) or 'nothing was hit'}", flush=True)
    print(f"{options.times} runs, {len(wrong)} wrong {wrong or ''}; {hits.total()} kills:")
    for hit, count in sorted(hits.items()):
        print(f"  {hit}: {count}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
