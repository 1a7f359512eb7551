"""Stages that do what the task's `repo` says, in the place of real ones: "quick", "fail", "die",
"slow" (until it is stopped), "chatty" (nonsense on its output), "big" (writes until it is killed).

Each leaves its name and process in `folder`/log, a line a start.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from tests.children import PATIENCE


def say(**message):
    print(json.dumps(message), flush=True)


def main():
    task = json.loads(sys.stdin.readline())
    what = task["repo"].partition("/")[0] or "quick"
    with (Path(task["folder"]) / "log").open("a") as log:
        log.write(f"{task['stage']} {task['source']} {os.getpid()}\n")
    stopped = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stopped.set()), daemon=True).start()
    say(done=1, total=4, detail="first")
    if what == "fail" and not (Path(task["folder"]) / "mended").exists():
        say(failed="no such thing\x1b[2J here")
        return
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "chatty":
        print("no JSON", flush=True)
        print('"no object"', flush=True)
        print("x" * 200_000, flush=True)
        say(done="many", total=-3, detail=7)
    if what == "deaf":
        time.sleep(600)
    if what == "slow":
        stopped.wait(PATIENCE)
        say(stopped=True)
        os._exit(0)
    path = str(Path(task["folder"]) / f"made by {task['stage']}")
    Path(path).write_text("x")
    say(done=4, total=4, detail="last")
    say(finished={"path": path, "name": task["stage"], "freed": 7})
    os._exit(0)
