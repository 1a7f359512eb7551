"""The clipboard of another program, which may hang."""

import subprocess
import sys
import threading

import glfw
import pytest

from llm_lite.desktop.render.clipboard import SILENT, Clipboard
from llm_lite.desktop.render.x11_clipboard import NoAnswerError, X11Clipboard
from tests.children import PATIENCE
from tests.desktop.render.x11_owner import PIECES
from tests.paths import ROOT


@pytest.fixture
def owner(display):
    """owner(kind) is a program that owns the clipboard from now on."""
    running = []

    def start(kind):
        words = [sys.executable, "-m", "tests.desktop.render.x11_owner", kind]
        one = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        running.append(one)
        assert one.stdout.readline() == "owns\n"
        return one

    yield start
    for one in running:
        one.kill()
        one.wait()
        one.stdout.close()


@pytest.fixture
def clipboard(display):
    one = X11Clipboard()
    yield one
    one.close()


def test_a_text_in_pieces_is_one(owner, clipboard):
    owner("pieces")
    assert clipboard.text() == "".join(PIECES)
    assert clipboard.text() == "".join(PIECES), "and again"


def test_a_text_that_is_no_utf_8(owner, clipboard):
    owner("latin")
    assert clipboard.text() == "caf\xe9\tb"


def test_what_is_no_text_is_none(owner, clipboard):
    owner("none")
    assert clipboard.text() == ""


@pytest.mark.parametrize("kind", ["silent", "stops"])
def test_an_owner_that_hangs_is_waited_for_no_longer(owner, display, kind):
    one = X11Clipboard(patience=0.3)
    hung = owner(kind)
    with pytest.raises(NoAnswerError):
        one.text()
    owner("pieces")  # the next one answers
    hung.kill()
    one._patience = 60.0
    assert one.text() == "".join(PIECES)
    one.close()


def test_no_owner_and_one_that_has_ended(owner, clipboard):
    one = owner("pieces")
    one.kill()
    one.wait()
    assert clipboard.text() == ""


def test_no_display_is_an_error(monkeypatch):
    monkeypatch.setenv("DISPLAY", ":987654")
    with pytest.raises(OSError, match="no connection"):
        X11Clipboard()


def test_a_thread_that_hangs_is_waited_for_no_longer(monkeypatch):
    """As under Wayland: GLFW itself waits, and no second thread is begun meanwhile."""
    reports, goes_on, asked = [], threading.Event(), []
    one = Clipboard(None, reports.append, "thread")
    one._patience = 0.2

    def read():
        asked.append(1)
        goes_on.wait()
        return "text"

    monkeypatch.setattr(one, "_read", read)
    assert (one.text(), reports) == ("", [SILENT])
    assert (one.text(), len(asked)) == ("", 1)
    goes_on.set()
    one._reading.join()
    one._patience = 60.0
    assert (one.text(), len(asked)) == ("text", 2)


def test_lines_end_alike_whoever_copied_them(monkeypatch):
    one = Clipboard(None, print, "plain")
    monkeypatch.setattr(one, "_read", lambda: "a\r\nb\rc\n\r\n\td")
    assert one.text() == "a\nb\nc\n\n\td"


def test_the_window_s_own_text_is_asked_of_nobody(display):
    """It would wait for itself."""
    assert glfw.init()
    glfw.window_hint(glfw.CLIENT_API, glfw.NO_API)
    glfw.window_hint(glfw.VISIBLE, glfw.FALSE)
    handle = glfw.create_window(100, 100, "", None, None)
    one = Clipboard(handle, print, "x11")
    glfw._glfw.glfwSetClipboardString(handle, "a\t안녕".encode() + b"\xff")
    assert one._x11.is_of(glfw.get_x11_window(handle))
    assert one.text() == "a\t안녕\ufffd"
    one.close()
    glfw.destroy_window(handle)
    glfw.terminate()


CLOSING = """
import glfw
from llm_lite.desktop.render.window import Window
window = Window("title")
glfw._glfw.glfwSetClipboardString(window.handle, b"kept")
window.close()
print("closed", flush=True)
"""


@pytest.mark.vulkan
@pytest.mark.parametrize("kind", ["manager", None])
def test_a_window_closes_beside_a_manager_of_clipboards_that_hangs(owner, kind):
    if kind is not None:
        owner(kind)
    done = subprocess.run(
        [sys.executable, "-c", CLOSING], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "closed\n", "")
