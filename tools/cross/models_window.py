"""A person in the real window finds a model, fetches it, quantizes it, talks to it, deletes it.

    python -m tools.cross.models_window [--out FOLDER] [--theme dark,light] [--language en,ko]

The program runs as it is on a virtual display, in folders of its own, and asks the hub of the tests
(`python -m tests.hub.server`) on the loopback address, which has the bundled SmolLM2 as GGUF and as
a checkpoint. Mouse and keys come from xdotool, pictures of the screen from ImageMagick. What each
step did is looked up in what the window tells and on the disk. Ends with 1 at the first that did
something else.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llm_lite.core.hub.catalog import resolve
from tests.hub.checkpoint import make_checkpoint
from tests.hub.faults import Fault
from tests.hub.server import TestHub, running_hub
from tools.cross.hostile_window import x_server
from tools.cross.window_session import Session, expect

OWNER = "HuggingFaceTB"
GGUF = f"{OWNER}/SmolLM2-135M-Instruct-GGUF"
CHECKPOINT = f"{OWNER}/SmolLM2-135M-Instruct"
FILE = "smollm2-135m-instruct-q4_1.gguf"
RATE = 10 << 20  # bytes a second: slow enough to be seen


def hub_folder(folder: Path) -> Path:
    """The two repositories, as folders of an owner."""
    bundled = resolve(None)
    make_checkpoint(bundled, folder / CHECKPOINT)
    (folder / GGUF).mkdir(parents=True)
    (folder / GGUF / FILE).symlink_to(bundled)
    return folder


def find(session: Session, hub: TestHub) -> None:
    """Nothing is asked of the hub before Enter."""
    session.keys("ctrl+shift+m")
    session.wait("the list", lambda told: told["local"])
    session.picture("local")
    session.click("library.tab.find")
    session.shown("library.words")
    session.picture("find")
    expect(not hub.asked, f"the hub was asked: {hub.asked[:2]}")
    session.click("library.words")
    session.type("smol")
    expect(not hub.asked, f"the hub was asked while typing: {hub.asked[:2]}")
    search(session)
    session.picture("found")


def search(session: Session) -> None:
    session.click("library.words")
    session.keys("ctrl+a")
    session.type("smollm2")
    session.keys("Return")
    session.wait("what was found", lambda told: len(told["found_models"]) == 2)


def fetch(session: Session) -> None:
    """The GGUF file: paused, gone on with, the window closed meanwhile and opened again."""
    session.click(f"library.card.{GGUF}")
    session.shown(f"library.file.{FILE}")
    session.shown("library.fit")
    session.picture("files")
    session.click("library.download")
    job = job_at(session, 0)
    session.wait("the first bytes", lambda told: done_of(told, 0) > 1 << 20)
    session.picture("fetching")
    session.click(f"library.job.{job}.pause")
    session.wait("the pause", lambda told: state_of(told, 0) == ["paused"])
    session.picture("paused")
    session.click(f"library.job.{job}.resume")
    before = done_of(session.told(), 0)
    session.wait("more bytes", lambda told: done_of(told, 0) > before)
    session.close()
    session.start()
    session.keys("ctrl+shift+m")
    session.click("library.tab.queue")
    session.picture("restarted")
    session.wait("the end", lambda told: state_of(told, 0) == ["done"])
    session.shown(f"library.job.{job}.open")
    session.picture("fetched")


def fetch_and_quantize(session: Session) -> None:
    """The checkpoint: fetched, then int4, its source deleted, one row."""
    session.click("library.tab.find")
    search(session)
    session.click(f"library.card.{CHECKPOINT}")
    session.click("library.fetch_quantize.open")
    session.shown("library.fetch_quantize.go")
    session.click("library.fetch_quantize.calibrate")
    session.click("library.fetch_quantize.delete")
    session.picture("quantize")
    session.click("library.fetch_quantize.go")
    session.wait("the row", lambda told: len(told["jobs"]) == 2)
    session.wait("quantization", lambda told: state_of(told, 1)[:2] == ["done", "running"])
    session.picture("quantizing")
    session.wait("the end", lambda told: state_of(told, 1) == ["done", "done", "done"])
    session.picture("quantized")


def talk(session: Session) -> None:
    told = session.told()
    job = told["jobs"][1]
    made = job["result"]
    expect(bool(made) and made in told["local"], f"{made!r} is in the list {told['local']}")
    session.click(f"library.job.{job['id']}.open")
    session.wait("the model", lambda told: told["model_path"] == told["local"][made]["path"])
    session.ask("What is rain?")
    session.picture("answered")


def delete(session: Session) -> None:
    """What was made goes; the deletion is undone first, then carried out."""
    made = session.told()["jobs"][1]["result"]
    session.keys("ctrl+shift+m")
    session.click("library.tab.local")
    session.click(f"library.local.{made}")
    session.shown("library.fit")
    session.picture("fit")
    session.click("library.remove.open")
    session.shown("library.remove.0")
    session.picture("delete")
    session.click("library.remove.0")
    row = session.wait("the deletion", lambda told: len(told["jobs"]) == 3)["jobs"][2]["id"]
    session.picture("deletion")
    session.click(f"library.job.{row}.undo")
    session.wait("it is undone", lambda told: len(told["jobs"]) == 2)
    session.click("library.tab.local")
    session.click(f"library.local.{made}")
    session.click("library.remove.open")
    session.click("library.remove.0")
    row = session.wait("the deletion", lambda told: len(told["jobs"]) == 3)["jobs"][2]["id"]
    path = Path(session.told()["local"][made]["path"])
    expect(path.exists(), f"{path} is there until the deletion is carried out")
    session.click(f"library.job.{row}.now")
    session.wait("it is gone", lambda told: made not in told["local"])
    expect(not path.exists(), f"{path} is deleted")
    session.picture("deleted")


def job_at(session: Session, number: int) -> str:
    told = session.wait("a row", lambda told: len(told["jobs"]) > number)
    return str(told["jobs"][number]["id"])


def state_of(told: dict[str, Any], number: int) -> list[str]:
    return [stage["state"] for stage in told["jobs"][number]["stages"]]


def done_of(told: dict[str, Any], number: int) -> int:
    return sum(stage["done"] for stage in told["jobs"][number]["stages"][:1])


def run(session: Session, hub: TestHub) -> None:
    session.start()
    find(session, hub)
    steps: tuple[Callable[[Session], None], ...] = (fetch, fetch_and_quantize, talk, delete)
    for step in steps:
        step(session)
    session.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/models-window"))
    parser.add_argument("--theme", default="dark,light")
    parser.add_argument("--language", default="en,ko")
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as made, running_hub() as hub:
        hub.add_folder(hub_folder(Path(made)))
        hub.faults.append(Fault("/cdn/", rate=RATE))
        for language in options.language.split(","):
            for theme in options.theme.split(","):
                with tempfile.TemporaryDirectory() as home, x_server() as display:
                    hub.asked.clear()
                    session = Session(display, Path(home), options.out, theme, language)
                    session.environment |= {
                        "HF_ENDPOINT": hub.url, "HF_HOME": f"{home}/hf", "HOME": home,
                        "XDG_STATE_HOME": f"{home}/STATE",
                    }  # fmt: skip
                    try:
                        run(session, hub)
                        print(f"{language} {theme}: as expected")
                    except AssertionError as error:
                        session.picture("wrong")
                        print(f"{language} {theme}: {error}")
                        wrong = 1
                    finally:
                        session.kill()
    return wrong


if __name__ == "__main__":
    sys.exit(main())
