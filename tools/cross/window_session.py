"""A person in the real window: select, copy, palette, undo, fork, restart, search, resume.

    python -m tools.cross.window_session [--out FOLDER] [--theme dark,light] [--language en,ko]

The program runs as it is on a virtual display, in folders of its own, with the bundled model; mouse
and keys come from xdotool, the clipboard is read by xclip, pictures are taken of the screen by
ImageMagick. What each step did is looked up in what the window tells (`tools.cross.marked_window`),
in the clipboard or in the history. Ends with 1 at the first step that did something else.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.children import PATIENCE
from tests.desktop import x11
from tests.paths import ROOT
from tools.cross.hostile_window import x_server

SETTLING = 0.4  # seconds: a frame or two, on a busy machine too
QUESTION = "What is rain?"
EDITED = "What is snow, and where does it fall?"
WINDOW = {"width": 1400, "height": 880, "x": 0, "y": 0}
CROP = "1400x880+0+0"  # of the screen: the window


class Session:
    """One window after the other on one history."""

    def __init__(self, display: str, home: Path, out: Path, theme: str, language: str) -> None:
        self._display, self._home, self._out = display, home, out
        self._name = f"{language}-{theme}"
        self._number = 0
        self._marks = home / "marks"
        kinds = {f"XDG_{kind}_HOME": str(home / kind) for kind in ("CONFIG", "DATA", "CACHE")}
        self.environment = {**os.environ, **kinds, "DISPLAY": display}
        settings = home / "CONFIG" / "llm-lite" / "settings.json"
        settings.parent.mkdir(parents=True)
        own = {"theme": theme, "appearance": theme, "language": language, "window": WINDOW}
        settings.write_text(json.dumps({**own, "sampling": {"seed": 7, "max_new_tokens": 120}}))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._marks.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tools.cross.marked_window", str(self._marks), "desktop"],
            cwd=ROOT, env=self.environment,
        )  # fmt: skip
        self.wait("the model", lambda told: told["model"] and not told["busy"])
        self.wait("the rows", lambda told: "chat.input" in told["rects"])
        time.sleep(SETTLING)

    def close(self) -> None:
        """Close the window as its button does."""
        assert self.process is not None
        x11.ask_to_close(self._display, x11.mapped_window(self._display))
        code = self.process.wait(PATIENCE)
        expect(code == 0, f"the window ended with {code}")

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def told(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self._marks.read_text("utf-8")))
        except FileNotFoundError:
            return {"rects": {}, "model": "", "busy": True, "rows": [], "messages": [], "found": []}

    def wait(self, what: str, until: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while not until(told := self.told()):
            expect(time.monotonic() < end, f"waited {PATIENCE:.0f} s for {what}")
            assert self.process is not None
            expect(self.process.poll() is None, f"the window ended before {what}")
            time.sleep(0.05)
        return told

    def shown(self, name: str) -> tuple[int, int, int, int]:
        """The rectangle of what is called so, once it is shown."""
        told = self.wait(name, lambda told: name in told["rects"])
        x0, y0, x1, y1 = (int(value) for value in told["rects"][name])
        return x0, y0, x1, y1

    def do(self, *words: object) -> None:
        command = ["xdotool", *map(str, words)]
        subprocess.run(command, env=self.environment, check=True, stdout=subprocess.DEVNULL)
        time.sleep(0.15)

    def keys(self, *chords: str) -> None:
        for chord in chords:
            self.do("key", "--delay", 40, chord)
        time.sleep(SETTLING)

    def type(self, text: str) -> None:
        self.do("type", "--delay", 25, text)
        time.sleep(SETTLING)

    def point(self, name: str) -> None:
        x0, y0, x1, y1 = self.shown(name)
        self.do("mousemove", (x0 + x1) // 2, (y0 + y1) // 2)
        time.sleep(SETTLING)

    def click(self, name: str, button: int = 1) -> None:
        self.point(name)
        self.do("click", button)
        time.sleep(SETTLING)

    def drag(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        self.do("mousemove", *start)
        self.do("mousedown", 1)
        for part in (0.3, 0.6, 1.0):
            x, y = (round(a + (b - a) * part) for a, b in zip(start, end, strict=True))
            self.do("mousemove", x, y)
        self.do("mouseup", 1)
        time.sleep(SETTLING)

    def clipboard(self) -> str:
        command = ["xclip", "-selection", "clipboard", "-out"]
        ran = subprocess.run(command, env=self.environment, capture_output=True, timeout=PATIENCE)
        return ran.stdout.decode()

    def picture(self, name: str) -> None:
        self._number += 1
        path = self._out / f"{self._name}-{self._number:02}-{name}.png"
        self._out.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["import", "-window", "root", "-crop", CROP, path], env=self.environment, check=True
        )

    def ask(self, text: str) -> dict[str, Any]:
        before = len(self.told()["messages"])
        self.click("chat.input")
        self.type(text)
        self.keys("Return")
        self.wait("the question", lambda told: len(told["messages"]) > before)
        return self.answered()

    def answered(self) -> dict[str, Any]:
        told = self.wait("the answer", lambda told: not told["busy"])
        expect(bool(told["messages"][-1][1]), "the answer is empty")
        time.sleep(SETTLING)
        return told


def expect(true: bool, otherwise: str) -> None:
    if not true:
        raise AssertionError(otherwise)


def select_and_copy(session: Session) -> None:
    """A word by two clicks, a line by three, some lines by the mouse, more by Shift and arrows."""
    answer = session.told()["messages"][-1][1]
    x0, y0, _, y1 = session.shown("message.1")
    first, lowest = y0 + 34, y1 - 34  # a line's middle, behind the head and above the buttons
    session.do("mousemove", x0 + 20, first)
    session.do("click", "--repeat", 2, "--delay", 60, 1)
    session.keys("ctrl+c")
    word = session.clipboard()
    expect(word.strip() in answer and " " not in word.strip() and word != "", f"a word: {word!r}")
    session.do("click", "--repeat", 3, "--delay", 60, 1)
    session.keys("ctrl+c")
    line = session.clipboard()
    expect(len(line) > len(word) and line.split()[0] in answer, f"a line: {line!r}")
    session.drag((x0 + 4, first), (x0 + 300, min(lowest, first + 44)))
    session.keys("ctrl+c")
    lines = session.clipboard()
    expect(len(lines.split()) > 4 and lines.split()[1] in answer, f"some lines: {lines!r}")
    session.picture("selected")
    session.keys("shift+Right", "shift+Right", "shift+Right", "ctrl+c")
    expect(session.clipboard().startswith(lines[:20]), "Shift and arrows")
    expect(
        len(session.clipboard()) == len(lines) + 3, "Shift and arrows take three characters more"
    )


def palette(session: Session) -> None:
    """A head by its name, which is the same in every language."""
    session.keys("ctrl+k")
    session.shown("palette.input")
    session.type("L3 H2")
    session.picture("palette")
    session.keys("Return")
    session.wait("the head", lambda told: [3, 2] in told["locked"])
    session.keys("ctrl+k")
    session.shown("palette.input")
    session.picture("palette-commands")
    session.keys("Escape")


def edit_and_undo(session: Session) -> None:
    """Another version of the question; what was there comes back, and goes again."""
    session.point("message.0")
    session.click("message.0.edit")
    session.keys("ctrl+a")
    session.type(EDITED)
    session.keys("Return")
    session.wait("the version", lambda told: told["messages"][0][1] == EDITED)
    session.answered()
    session.picture("edited")
    unfocus(session)
    session.keys("ctrl+z")
    session.wait("what was there", lambda told: told["messages"][0][1] == QUESTION)
    session.picture("undone")
    session.keys("ctrl+shift+z")
    session.wait("the version again", lambda told: told["messages"][0][1] == EDITED)


def fork(session: Session) -> None:
    """The answer goes on behind its fifth token, as a version; that is taken back."""
    before = session.told()["messages"][1]
    session.click("chat.xray")
    session.click("token.1.4")
    session.shown("tokens.choice.on")
    session.picture("fork")
    session.click("tokens.choice.on")
    session.wait("a version", lambda told: told["messages"][1][2] != before[2])
    told = session.answered()
    expect(told["messages"][1][1][:10] == before[1][:10], "it begins as the answer did")
    session.picture("forked")
    unfocus(session)
    session.keys("ctrl+z")
    session.wait("the answer before", lambda told: told["messages"][1] == before)
    session.click("chat.xray")


def unfocus(session: Session) -> None:
    """Keys go to the conversation, and not to the input."""
    x0, y0, _, _ = session.shown("message.1")
    session.do("mousemove", x0 + 2, y0 + 6, "click", 1)
    time.sleep(SETTLING)


def search(session: Session) -> None:
    session.keys("ctrl+shift+f")
    session.type("where does it fall")
    session.wait("what was searched for", lambda told: told["found"])
    session.picture("found")
    session.click("history.found.0")
    session.wait("the conversation", lambda told: told["messages"])


def resume(session: Session) -> None:
    """What was computed before the restart is not read again."""
    session.shown("chat.resume")
    session.picture("resume")
    session.click("chat.resume")
    told = session.wait("the cache", lambda told: told["cached"])
    session.picture("resumed")
    kept = told["cached"]
    told = session.ask("And in the mountains?")
    expect(told["reused"] >= kept - 8, f"{told['reused']} of {kept} tokens were not read again")
    session.picture("goes-on")


STEPS: tuple[Callable[[Session], None], ...] = (select_and_copy, palette, edit_and_undo, fork)


def run(session: Session) -> None:
    session.start()
    session.picture("started")
    session.ask(QUESTION)
    for step in STEPS:
        step(session)
    session.close()
    session.start()
    session.picture("restarted")
    search(session)
    resume(session)
    session.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/window-session"))
    parser.add_argument("--theme", default="dark,light")
    parser.add_argument("--language", default="en,ko")
    options = parser.parse_args()
    wrong = 0
    for language in options.language.split(","):
        for theme in options.theme.split(","):
            with tempfile.TemporaryDirectory() as home, x_server() as display:
                session = Session(display, Path(home), options.out, theme, language)
                try:
                    run(session)
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
