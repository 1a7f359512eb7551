"""Real input methods in the real window: IBus with Hangul and Pinyin on a virtual display.

    python -m tools.cross.input_method [--out FOLDER] [--only WORDS] [--theme dark|light]

A session bus, an ibus-daemon and the program run for each case; xdotool types, and what arrived in
the field is copied by the program's own Ctrl+C and read by xclip. Pictures of compositions go to
FOLDER. Debian's packages: xvfb dbus ibus ibus-hangul ibus-libpinyin xdotool xclip.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.desktop import x11
from tests.make_gguf import write_tiny_llama
from tests.paths import ROOT
from tools.cross.hostile_window import x_server

TOOLS = ("Xvfb", "dbus-daemon", "ibus-daemon", "ibus", "xdotool", "xclip")
ENGINES = {"hangul": "ibus-engine-hangul", "libpinyin": "ibus-engine-libpinyin"}
FOLDERS = (Path("/usr/libexec"), Path("/usr/lib/ibus"), Path("/usr/lib/ibus-libpinyin"))
SECONDS = 40.0  # for anything to begin
SETTLING = 0.4  # seconds for a frame after a key
COPY_SECONDS = 8.0  # on a busy machine; an empty field takes so long
SLOWLY = 30  # ms between two keys
COMPOSER, SEARCH, SYSTEM_PROMPT, POPOVER = (
    (560, 913),
    (140, 24),
    (26, 220),
    (220, 330),
)  # pixels, in a window of 1600 x 1000


def missing() -> str:
    """What this machine lacks; '' where it has everything."""
    lacks = [tool for tool in TOOLS if shutil.which(tool) is None]
    for name, program in ENGINES.items():
        if not any((folder / program).exists() for folder in FOLDERS):
            lacks.append(f"ibus-{name}")
    return f"not installed: {', '.join(lacks)}" if lacks else ""


class Desk:
    """A person at the program, with an input method."""

    def __init__(
        self, folder: Path, display: str, theme: str = "dark", pictures: Path | None = None
    ):
        self.folder, self._pictures, self._theme = folder, pictures, theme
        self.environment = {
            **{key: value for key, value in os.environ.items() if key != "WAYLAND_DISPLAY"},
            "DISPLAY": display, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_DATA_HOME": str(folder / "data"), "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_RUNTIME_DIR": str(folder / "run"), "GSETTINGS_BACKEND": "keyfile",
            "XMODIFIERS": "@im=ibus", "LC_ALL": "C.UTF-8", "NO_AT_BRIDGE": "1",
        }  # fmt: skip
        for name in ("config/glib-2.0/settings", "data", "cache"):
            (folder / name).mkdir(parents=True)
        (folder / "run").mkdir(mode=0o700)
        self._errors = (folder / "stderr").open("wb")
        self._children: list[subprocess.Popen[bytes]] = []
        self.daemon: subprocess.Popen[bytes] | None = None
        self.window = 0

    def begin(self, engine: str) -> None:
        (self.folder / "config/glib-2.0/settings/keyfile").write_text(
            "[org/freedesktop/ibus/engine/hangul]\ninitial-input-mode='hangul'\n"
            f"[desktop/ibus/general]\npreload-engines=['{engine}']\n"
            f"engines-order=['{engine}']\n"
        )
        bus = self._start("dbus-daemon", "--session", "--nofork", "--print-address=1", told=True)
        assert bus.stdout is not None
        self.environment["DBUS_SESSION_BUS_ADDRESS"] = bus.stdout.readline().decode().strip()
        self.begin_ibus(engine)
        settings = self.folder / "config" / "llm-lite" / "settings.json"
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps({"theme": self._theme}))
        model = write_tiny_llama(self.folder / "tiny.gguf", seed=2)
        command = (sys.executable, "-m", "llm_lite", "desktop", "--ctx", "128", str(model))
        self.program = self._start(*command)
        self.wait_for(self._appeared)
        self._do("xdotool", "windowsize", str(self.window), "1600", "1000")
        self._do("xdotool", "windowmove", str(self.window), "0", "0")
        self._do("xdotool", "windowfocus", str(self.window))
        time.sleep(3.0)  # the model, and the connection
        self.click(COMPOSER)
        self.wait_for(self._takes_text)
        self.clear()

    def _takes_text(self) -> bool:
        self.press("1")
        return self.text().startswith("1")

    def begin_ibus(self, engine: str) -> None:
        self.daemon = self._start("ibus-daemon", "--emoji-extension=disable")
        self.wait_for(lambda: self._is_chosen(engine))

    def _is_chosen(self, engine: str) -> bool:
        """`ibus engine NAME` returns 1 for some that it has set."""
        self._do("ibus", "engine", engine, check=False)
        told = subprocess.run(["ibus", "engine"], env=self.environment, capture_output=True)
        return told.stdout.decode().strip() == engine

    def _start(self, *command: str, told: bool = False) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            command, cwd=ROOT, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if told else self._errors, stderr=self._errors,
        )  # fmt: skip
        self._children.append(child)
        return child

    def _do(self, *command: str, check: bool = True) -> int:
        done = subprocess.run(
            command, env=self.environment, stdout=self._errors, stderr=self._errors, timeout=SECONDS
        )
        assert not check or done.returncode == 0, command
        return done.returncode

    def wait_for(self, happened: Callable[[], bool]) -> None:
        end = time.monotonic() + SECONDS
        while not happened():
            assert time.monotonic() < end, self.said()
            time.sleep(0.1)

    def said(self) -> str:
        return (self.folder / "stderr").read_text("utf-8", "replace")[-2000:]

    def _appeared(self) -> bool:
        self.window = x11.mapped_window(self.environment["DISPLAY"])
        return self.window != 0

    def type(self, text: str, delay: int = SLOWLY) -> None:
        self._do("xdotool", "type", "--delay", str(delay), text)
        time.sleep(SETTLING)

    def press(self, *keys: str) -> None:
        self._do("xdotool", "key", "--delay", str(SLOWLY), *keys)
        time.sleep(SETTLING)

    def lay_out(self, *names: str) -> bool:
        """Switch to another layout of the keyboard."""
        return self._do("setxkbmap", *names) == 0

    def click(self, at: tuple[int, int]) -> None:
        self._do("xdotool", "mousemove", str(at[0]), str(at[1]), "click", "1")
        time.sleep(SETTLING)

    def text(self) -> str:
        """What the field with the focus holds. Copying is a key too: it ends a composition."""
        subprocess.run(["xclip", "-selection", "clipboard", "-i"], input=b"-", env=self.environment,
                       check=True)  # fmt: skip
        self.press("ctrl+a", "ctrl+c")
        command = ["timeout", "5", "xclip", "-selection", "clipboard", "-o"]
        found, end = "-", time.monotonic() + COPY_SECONDS
        while found == "-" and time.monotonic() < end:
            run = subprocess.run(command, env=self.environment, capture_output=True)
            found = run.stdout.decode()
        return found

    def has_kept(self) -> bool:
        """Return whether the history holds the question."""
        files = [path for kind in ("*.sqlite3*", "*.db*") for path in self.folder.rglob(kind)]
        return any("안녕".encode() in path.read_bytes() for path in files)

    def picture(self, name: str) -> None:
        if self._pictures is not None and shutil.which("import"):
            time.sleep(1.0)
            self._pictures.mkdir(parents=True, exist_ok=True)
            path = self._pictures / f"{name}-{self._theme}.png"
            self._do("import", "-window", "root", str(path))

    def clear(self) -> None:
        self.press("ctrl+a", "BackSpace")

    def end(self) -> None:
        for child in reversed(self._children):
            if child.poll() is None:
                child.send_signal(signal.SIGCONT)
                child.terminate()
        for child in reversed(self._children):
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._errors.close()


def hangul_in_the_composer(desk: Desk) -> None:
    desk.type("dkssud")
    desk.picture("hangul-composer")
    assert (found := desk.text()) == "안녕", found
    desk.clear()
    desk.type("gksrnr", delay=4)  # as fast as it goes: nothing changes places
    desk.type("dkssudgktpdy tptkd " * 4, delay=4)
    assert (found := desk.text()) == "한국" + "안녕하세요 세상 " * 4, found
    desk.clear()
    desk.type("dkssud")
    desk.press("BackSpace")
    assert (found := desk.text()) == "안녀", found


def hangul_between_letters(desk: Desk) -> None:
    desk.press("shift+space")
    desk.type("see the  end")
    desk.press("Left", "Left", "Left", "Left", "shift+space")
    desk.type("gks")
    desk.picture("hangul-middle")
    desk.press("Right")
    assert (found := desk.text()) == "see the 한 end", found


def hangul_and_a_click(desk: Desk) -> None:
    """What was composed stays in its field, and nothing of it comes into the other one."""
    desk.type("dkssud")
    desk.click(SEARCH)
    desk.type("gksrmf")
    desk.picture("hangul-search")
    assert (found := desk.text()) == "한글", found
    desk.click(COMPOSER)
    assert (found := desk.text()) == "안녕", found


def hangul_in_the_system_prompt(desk: Desk) -> None:
    """A field of several lines in a popover."""
    desk.click(SYSTEM_PROMPT)
    desk.click(POPOVER)
    desk.press("ctrl+Home", "Down", "Home")
    desk.type("dkssud")
    desk.picture("hangul-popover")
    assert desk.text().count("안녕") == 1


def hangul_in_the_find_field(desk: Desk) -> None:
    """Compose in the find field, which shows a hint of its own while it is empty."""
    desk.type("gksrmf")
    desk.press("Return")
    time.sleep(2.0)
    desk.press("ctrl+f")
    desk.type("gks")
    desk.picture("hangul-find")
    assert (found := desk.text()) == "한", found


def hangul_is_sent_whole(desk: Desk) -> None:
    desk.type("dkssud")
    desk.press("Return")
    desk.picture("hangul-sent")
    assert (found := desk.text()) == "-", found  # an empty field copies nothing
    desk.wait_for(desk.has_kept)


def hangul_without_its_daemon(desk: Desk) -> None:
    """End the daemon while a syllable is composed: it stays, keys go on, and a new one is found."""
    assert desk.daemon is not None
    desk.type("dkssud")
    desk.daemon.kill()
    time.sleep(1.0)
    desk.type("abc")
    desk.picture("hangul-without")
    assert (found := desk.text()) == "안녕abc", found
    desk.clear()
    desk.begin_ibus("hangul")
    time.sleep(4.0)
    desk.press("x", "BackSpace")
    time.sleep(1.0)
    desk.type("gks")
    assert (found := desk.text()) == "한", found


def hangul_with_a_daemon_that_hangs(desk: Desk) -> None:
    assert desk.daemon is not None
    desk.type("dkssud")
    desk.daemon.send_signal(signal.SIGSTOP)
    desk.type("abc")
    desk.picture("hangul-hangs")
    desk.daemon.send_signal(signal.SIGCONT)
    time.sleep(1.0)
    desk.type("gks")
    assert (found := desk.text()) == "안녕abc한", found


def accents_of_the_keyboard(desk: Desk) -> None:
    """Dead keys go on to make accents: X's own composing, or that of an IBus keyboard."""
    assert desk.lay_out("us", "intl")
    desk.press("shift+space")  # Hangul's own Latin mode
    desk.press("dead_acute", "e", "a")
    assert (found := desk.text()) == "éa", found


def pinyin_in_the_composer(desk: Desk) -> None:
    desk.type("nihao")
    desk.picture("pinyin-composer")
    desk.press("space")
    assert (found := desk.text()) == "你好", found
    desk.clear()
    desk.type("zhongguo")
    desk.press("Escape")
    desk.type("shijie ")
    assert (found := desk.text()) == "世界", found


def pinyin_in_the_search_field(desk: Desk) -> None:
    desk.click(SEARCH)
    desk.type("beijing")
    desk.picture("pinyin-search")
    desk.press("space")
    assert (found := desk.text()) == "北京", found


CASES = {
    "hangul": (
        hangul_in_the_composer, hangul_between_letters, hangul_and_a_click,
        hangul_in_the_system_prompt, hangul_in_the_find_field, hangul_is_sent_whole,
        hangul_without_its_daemon, accents_of_the_keyboard, hangul_with_a_daemon_that_hangs,
    ),
    "libpinyin": (pinyin_in_the_composer, pinyin_in_the_search_field),
}  # fmt: skip


@contextmanager
def desk_with(engine: str, theme: str, pictures: Path | None) -> Iterator[Desk]:
    with x_server() as display, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        desk = Desk(Path(folder), display, theme, pictures)
        try:
            desk.begin(engine)
            yield desk
        finally:
            desk.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    parser.add_argument("--only", default="", metavar="WORDS")
    parser.add_argument("--theme", choices=("dark", "light"), default="dark")
    chosen = parser.parse_args()
    if reason := missing():
        print(f"skipped: {reason}")
        return 0
    failed = 0
    for engine, cases in CASES.items():
        for case in cases:
            if chosen.only not in case.__name__:
                continue
            try:
                with desk_with(engine, chosen.theme, chosen.out) as desk:
                    case(desk)
                    problem = "" if "Traceback" not in desk.said() else desk.said()
            except (AssertionError, subprocess.SubprocessError) as error:
                problem = str(error) or "failed"
            failed += bool(problem)
            print(f"{case.__name__}: {problem or 'good'}", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
