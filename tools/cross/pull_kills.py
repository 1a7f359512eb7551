"""Kills `llm-lite models pull` at random moments, and checks what is left.

    python -m tools.cross.pull_kills [--times 50] [--seed 1]

A hub on the loopback address sends slowly. After each kill (SIGKILL) whatever has a file's name
must have the file's hash, and a model must be there whole or not at all; the next pull goes on, and
is killed in its turn. Pulls that come to their end are verified, and the cache begins empty again.
Then a hub that sends other bytes must be refused with both hashes, and `models gc` must leave
nothing half.
Ends with 1 where anything was wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.children import PATIENCE
from tests.hub.checkpoint import make_checkpoint
from tests.hub.faults import Fault
from tests.hub.server import TestHub, running_hub
from tests.make_gguf import write_tiny_llama
from tests.paths import ROOT

GGUF, CHECKPOINT = "tiny/talker", "tiny/talker-hf"
RATE = 4_000_000  # bytes/s of one file
LONGEST_LIFE = 1.0  # seconds


@dataclass
class Tally:
    kills: int = 0
    resumed: int = 0  # pulls that asked for the rest of a file
    finished: int = 0  # pulls that came to their end and were verified
    half: int = 0  # kills that left a file half fetched
    wrong: int = 0

    def check(self, holds: bool, words: str) -> None:
        if not holds:
            self.wrong += 1
            print(f"wrong: {words}")


@contextlib.contextmanager
def hub_of_two(folder: Path) -> Iterator[TestHub]:
    """A GGUF file, and the same model as a checkpoint in three parts."""
    gguf = write_tiny_llama(
        folder / "talker.F16.gguf", seed=5, dtype="f16", layers=6, width=256, ffn=1024
    )
    with running_hub() as hub:
        hub.add(GGUF, {gguf.name: gguf})
        made = make_checkpoint(gguf, folder / "checkpoint", shards=3)
        hub.add(CHECKPOINT, {path.name: path for path in made.iterdir()})
        yield hub


def start(hub: TestHub, home: Path, *words: str) -> subprocess.Popen[str]:
    environment = os.environ | {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(home / "hf"),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "HOME": str(home),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "llm_lite", "models", *words],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the exit code of the process and all that it printed."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    return process.returncode, out + err


def look(hub: TestHub, home: Path, tally: Tally) -> None:
    """What has a name is whole."""
    cache = home / "hf" / "hub"
    for path in cache.glob("models--*/blobs/*"):
        if path.name.endswith(".incomplete"):
            tally.half += 1
            continue
        data = path.read_bytes()
        git = hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()
        known = path.name in (hashlib.sha256(data).hexdigest(), git)
        tally.check(known, f"{path} has not the hash that it is named by")
    for repository in hub.repositories.values():
        files = repository.commits[repository.head]
        folder = cache / f"models--{repository.name.replace('/', '--')}" / "snapshots"
        for path in folder.glob("*/*"):
            tally.check(path.exists(), f"{path} leads to nothing")
            if path.exists():
                whole = path.read_bytes() == files[path.name].read(0, files[path.name].size)
                tally.check(whole, f"{path} is not the hub's file")


def kill_once(hub: TestHub, home: Path, repo: str, chance: random.Random, tally: Tally) -> bool:
    """At any moment, three of four times after the first byte of a file; whether the pull came to
    its end before it was killed."""
    asked, sent = len(hub.asked), hub.sent
    process = start(hub, home, "pull", repo)
    if chance.random() < 0.75:
        while hub.sent == sent and process.poll() is None:
            time.sleep(0.005)
    time.sleep(chance.uniform(0, LONGEST_LIFE))
    early = process.poll() is not None
    if not early:
        os.killpg(process.pid, 9)
    code, said = ended(process)
    tally.check(not early or code == 0, f"a pull ended with {code}: {said[-500:]}")
    tally.kills += not early
    tally.resumed += any("Range" in headers for _, _, headers in hub.asked[asked:])
    look(hub, home, tally)
    return early


def verified(hub: TestHub, home: Path, repo: str, tally: Tally) -> None:
    for words in (("pull", repo), ("verify", f"hf:{repo}"), ("verify", f"hf:{repo}", "--online")):
        done(hub, home, tally, *words)
    look(hub, home, tally)
    tally.finished += 1


def refused(hub: TestHub, home: Path, tally: Tally) -> None:
    """Other bytes than the hub has told of: both hashes, and nothing of them stays."""
    blob = next(iter(hub.repositories[GGUF].commits[hub.repositories[GGUF].head].values()))
    lie = bytes(blob.size)
    fault = Fault(f"/cdn/{GGUF}", content=lie)
    hub.faults.insert(0, fault)
    code, said = ended(start(hub, home, "pull", GGUF))
    hub.faults.remove(fault)
    hashes = blob.sha256 in said and hashlib.sha256(lie).hexdigest() in said
    tally.check(code == 1 and hashes, f"a mismatch ended with {code}: {said[-500:]}")
    tally.check(not list(home.rglob("*.incomplete")), "a mismatch left its bytes")


def collected(hub: TestHub, home: Path, tally: Tally) -> None:
    """A killed pull that waits in the queue loses nothing to `models gc`; of a cancelled one
    nothing half is left."""
    for repo in (GGUF, CHECKPOINT):
        process = start(hub, home, "pull", repo)
        deadline = time.monotonic() + PATIENCE
        while not list(home.rglob("*.incomplete")) and time.monotonic() < deadline:
            time.sleep(0.01)
        os.killpg(process.pid, 9)
        ended(process)
        done(hub, home, tally, "gc")
        tally.check(bool(list(home.rglob("*.incomplete"))), "models gc took what is to go on")
        jobs = json.loads(done(hub, home, tally, "queue", "--json"))
        waiting = ("waiting", "running", "paused")
        to_come = [job["id"] for job in jobs if job["stages"][0]["state"] in waiting]
        done(hub, home, tally, "queue", "cancel", *to_come)
        done(hub, home, tally, "gc")
        left = list(home.rglob("*.incomplete"))
        tally.check(not left, f"models gc left {left[:3]}")
        look(hub, home, tally)


def done(hub: TestHub, home: Path, tally: Tally, *words: str) -> str:
    """What a command says that must end well."""
    code, said = ended(start(hub, home, *words))
    tally.check(code == 0, f"models {' '.join(words)} ended with {code}: {said[-500:]}")
    return said


def run(times: int, seed: int) -> Tally:
    tally, chance = Tally(), random.Random(seed)
    with tempfile.TemporaryDirectory() as name, hub_of_two(Path(name)) as hub:
        hub.faults.append(Fault("/cdn/", rate=RATE))
        home = Path(name) / "home"
        home.mkdir()
        while tally.kills < times and not tally.wrong:
            repo = chance.choice((GGUF, CHECKPOINT))
            if kill_once(hub, home, repo, chance, tally):
                verified(hub, home, repo, tally)
                shutil.rmtree(home / "hf")
        for repo in (GGUF, CHECKPOINT):
            verified(hub, home, repo, tally)
        shutil.rmtree(home / "hf")
        refused(hub, home, tally)
        collected(hub, home, tally)
    return tally


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(words)
    tally = run(options.times, options.seed)
    print(
        f"{tally.kills} kills, {tally.wrong} wrong; {tally.half} times a file was half there, "
        f"{tally.resumed} pulls went on within a file, {tally.finished} models were verified"
    )
    return int(bool(tally.wrong))


if __name__ == "__main__":
    sys.exit(main())
