"""Kills `llm-lite models queue run` at random moments, and checks what is left.

    python -m tools.cross.queue_kills [--times 50] [--seed 1]

The queue has a download that becomes int8 and loses its source, a checkpoint, and a repository that
is not there. After each kill (SIGKILL) the queue's file must be whole with all of its jobs, the
processes of its stages must end, and whatever has a file's name must have the file's hash; the next
run goes on, and is killed in its turn. Runs that come to their end must have done all that can be
done; then everything begins anew.
Ends with 1 where anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import psutil

from llm_lite.core.hub.queue import commands
from llm_lite.core.hub.queue.queue_file import QueueFile
from tests.children import PATIENCE
from tests.hub.faults import Fault
from tests.hub.server import TestHub
from tools.cross.pull_kills import (
    CHECKPOINT,
    GGUF,
    RATE,
    Tally,
    done,
    ended,
    hub_of_two,
    look,
    start,
)

LONGEST_LIFE = 4.0  # seconds: the program starts, fetches and quantizes in so many
LEFT_ALONE = 0.2  # of the runs, so that some come to their end on a busy machine, too
JOBS = {"gguf": "done", "checkpoint": "done", "nobody": "failed"}


def filled(home: Path) -> QueueFile:
    """A queue of a person who has never had one."""
    home.mkdir()
    file = QueueFile(home / "state" / "llm-lite" / "models")
    file.edit(commands.fetch(GGUF, mode="int8", delete_source=True, job_id="gguf"))
    file.edit(commands.fetch(CHECKPOINT, job_id="checkpoint"))
    file.edit(commands.fetch("tiny/nobody", job_id="nobody"))
    return file


def stages_of(home: Path) -> list[int]:
    """Processes that the queue of this home has started and that live."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ", "status"]):
        words = " ".join(process.info["cmdline"] or ())
        ours = (process.info["environ"] or {}).get("HOME") == str(home)
        if ours and "llm_lite" in words and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


def kill_once(
    hub: TestHub, home: Path, file: QueueFile, chance: random.Random, tally: Tally
) -> bool:
    """Return whether the run came to its end before it was killed."""
    process = start(hub, home, "queue", "run", "--json")
    if chance.random() < LEFT_ALONE:
        ended_by = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < ended_by:
            time.sleep(0.05)
    else:
        time.sleep(chance.uniform(0, LONGEST_LIFE))
    early = process.poll() is not None
    if not early:
        os.kill(process.pid, 9)
    code, said = ended(process)
    tally.check(not early or code == 1, f"a run ended with {code}: {said[-500:]}")
    tally.kills += not early
    _check_left(hub, home, file, tally)
    return early


def _check_left(hub: TestHub, home: Path, file: QueueFile, tally: Tally) -> None:
    end = time.monotonic() + PATIENCE
    while (left := stages_of(home)) and time.monotonic() < end:
        time.sleep(0.05)
    tally.check(not left, f"processes {left} live on")
    raw = file.path.read_bytes()
    try:
        ids = {job["row"]["id"] for job in json.loads(raw)["jobs"]}
    except (ValueError, KeyError):
        ids = set()
    tally.check(ids == set(JOBS), f"the queue's file holds {sorted(ids)}: {raw[:200]!r}")
    tally.check(not list(file.folder.glob("*damaged*")), "the queue was set aside as damaged")
    look(hub, home, tally)


def check_end(hub: TestHub, home: Path, tally: Tally) -> None:
    """All is done that can be, and can be used."""
    jobs = json.loads(done(hub, home, tally, "queue", "--json"))
    for job in jobs:
        states = {stage["state"] for stage in job["stages"]}
        tally.check(JOBS[job["id"]] in states, f"{job['id']} ended with {sorted(states)}")
    listed = json.loads(done(hub, home, tally, "list", "--json"))
    for model in listed:
        tally.check(not model["problem"], f"{model['name']}: {model['problem']}")
    names = {model["name"] for model in listed if model["origin"] != "bundled"}
    tally.check(len(names) == 2, f"the models are {sorted(names)}")
    for name in names:
        done(hub, home, tally, "verify", name)
    tally.finished += 1


def run(times: int, seed: int) -> Tally:
    tally, chance = Tally(), random.Random(seed)
    with tempfile.TemporaryDirectory() as name, hub_of_two(Path(name)) as hub:
        hub.faults.append(Fault("/cdn/", rate=RATE))
        home = Path(name) / "home"
        file = filled(home)
        while (tally.kills < times or not tally.finished) and not tally.wrong:
            if kill_once(hub, home, file, chance, tally):
                check_end(hub, home, tally)
                shutil.rmtree(home)
                file = filled(home)
    return tally


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(words)
    tally = run(options.times, options.seed)
    print(f"{tally.kills} kills, {tally.wrong} wrong; {tally.finished} runs came to their end")
    return int(bool(tally.wrong))


if __name__ == "__main__":
    sys.exit(main())
