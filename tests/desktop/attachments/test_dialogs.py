"""The programs that show a file dialog: how they are asked, and what they answer."""

import os
import sys
import time
from pathlib import Path

import pytest

from llm_lite.desktop.features.file_chooser.host import FileDialog
from tests.children import PATIENCE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have a library")


def stand_in(tmp_path, monkeypatch, name, body):
    program = tmp_path / name
    program.write_text(f'#!/bin/sh\nfor word; do echo "$word"; done > {tmp_path}/asked\n{body}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin{os.pathsep}/usr/bin")
    monkeypatch.setattr("llm_lite.desktop.features.file_chooser.host.LINUX_HELPERS", (name,))


def answer(dialog):
    end = time.monotonic() + PATIENCE
    while dialog.open and time.monotonic() < end:
        chosen = dialog.poll()
        if chosen:
            return chosen[0]
        time.sleep(0.001)
    return None


@pytest.mark.parametrize("name", ["zenity", "kdialog"])
@pytest.mark.parametrize("chosen", [b"/models/a b.gguf", b"/caf\xe9.gguf", b"/new\nline.gguf"])
def test_the_chosen_file(tmp_path, monkeypatch, name, chosen):
    (tmp_path / "chosen").write_bytes(chosen + b"\n")
    stand_in(tmp_path, monkeypatch, name, f"cat {tmp_path}/chosen")
    dialog = FileDialog()
    dialog.show(Path("/models"))
    assert dialog.open
    assert os.fsencode(answer(dialog)) == chosen
    assert not dialog.open
    asked = (tmp_path / "asked").read_text()
    assert "Open a model" in asked
    assert "*.gguf *.safetensors config.json" in asked
    assert "/models" in asked


@pytest.mark.parametrize("body", ["exit 1", "exit 0", "echo; exit 1", "kill -9 $$"])
def test_a_dialog_that_is_cancelled_chooses_nothing(tmp_path, monkeypatch, body):
    stand_in(tmp_path, monkeypatch, "zenity", body)
    dialog = FileDialog()
    dialog.show(None)
    assert answer(dialog) is None
    assert not dialog.open


def test_a_dialog_that_stays_open_goes_with_the_window(tmp_path, monkeypatch):
    stand_in(tmp_path, monkeypatch, "zenity", "exec sleep 1000")
    dialog = FileDialog()
    dialog.show(None)
    assert dialog.poll() == ()
    dialog.close()
    assert not dialog.open
