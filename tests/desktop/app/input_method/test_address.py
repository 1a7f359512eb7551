"""Where IBus says that it listens."""

import os
import sys

import pytest

from llm_lite.desktop.app.input_method import input_method
from llm_lite.desktop.app.input_method.input_method import find_address, is_wanted, named_method


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Writes the daemon's file for a display."""
    machine = tmp_path / "machine"
    machine.write_text("abc\n")
    monkeypatch.setattr(input_method, "MACHINE_FILES", (machine,))
    bus = tmp_path / "ibus" / "bus"
    bus.mkdir(parents=True)

    def write(display, text):
        (bus / f"abc-{display}").write_bytes(text)
        return {"XDG_CONFIG_HOME": str(tmp_path), "DISPLAY": ":5.0"}

    return write


def test_the_file_of_this_display(folder):
    text = f"# made by ibus\nIBUS_ADDRESS=unix:abstract=/x,guid=1\nIBUS_DAEMON_PID={os.getpid()}\n"
    environment = folder("unix-5", text.encode())
    assert find_address(environment) == "unix:abstract=/x,guid=1"
    assert find_address({**environment, "DISPLAY": ":6"}) is None
    assert find_address({**environment, "IBUS_ADDRESS": "unix:path=/y"}) == "unix:path=/y"
    folder("unix-wayland-0", b"IBUS_ADDRESS=unix:path=/w\n")
    assert find_address({**environment, "WAYLAND_DISPLAY": "wayland-0"}) == "unix:path=/w"


@pytest.mark.parametrize(
    "text",
    [b"", b"\xff\xfe\0", b"IBUS_ADDRESS=\n", b"=" * 9000, b"IBUS_DAEMON_PID=1\n",
     b"IBUS_ADDRESS=unix:path=/x\nIBUS_DAEMON_PID=999999999\n"],
)  # fmt: skip
@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_a_file_that_leads_to_no_daemon(folder, text):
    assert find_address(folder("unix-5", text)) is None


def test_nothing_at_all(tmp_path):
    assert find_address({"HOME": str(tmp_path)}) is None


def test_the_method_that_the_session_names():
    assert named_method({"XMODIFIERS": "@im=ibus"}) == "ibus"
    assert named_method({"XMODIFIERS": "@foo=bar@im=fcitx"}) == "fcitx"
    assert named_method({"XMODIFIERS": "garbage"}) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="never elsewhere")
def test_x_keeps_the_methods_that_are_not_ours(folder):
    there = folder("unix-5", b"IBUS_ADDRESS=unix:path=/x\n")
    away = {"XDG_CONFIG_HOME": "/nowhere"}
    assert is_wanted(there) and is_wanted({**away, "XMODIFIERS": "@im=ibus"})
    assert is_wanted({**there, "XMODIFIERS": "@im=fcitx"})  # which speaks as IBus too
    assert not is_wanted({**there, "XMODIFIERS": "@im=SCIM"})
    assert not is_wanted({**away, "XMODIFIERS": "@im=fcitx"}) and not is_wanted(away)
