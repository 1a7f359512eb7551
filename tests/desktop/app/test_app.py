"""The whole desktop in a real window on a virtual display, validated; the engine is scripted."""

import errno
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from imgui_bundle import imgui

from llm_lite.cli.terminal.output import warn
from llm_lite.core.errors import DeviceLostError
from llm_lite.core.messages import EngineOptions, LoadModel, SamplingOptions
from llm_lite.core.records import replace
from llm_lite.desktop.app import pacing
from llm_lite.desktop.app.app import CLOSE_SECONDS, App
from llm_lite.desktop.app.settings import SettingsStore, load, restore
from llm_lite.desktop.features.attachments.model import ChooseAttachments
from llm_lite.desktop.features.chat.model import Send, SetSampling
from llm_lite.desktop.features.program.model import ChooseFile, SetFontSize, SetTheme
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.sampling.model import with_asked
from llm_lite.desktop.render.clipboard import SILENT
from llm_lite.desktop.render.window import Window
from tools.tour.input_driver import InputDriver

# isort: split
import glfw

from tests.children import PATIENCE
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.render.x11_owner import PIECES

pytestmark = pytest.mark.vulkan


class Engine(ScriptedEngine):
    """With the real one's constructor."""

    delay = 0.01

    def __init__(self, device, wake, variants):
        assert variants.name == "models"
        super().__init__(Engine.delay, wake)
        self.devices.append(device)


@pytest.fixture
def app(display, tmp_path, monkeypatch):
    """app() opens the desktop with a model loaded; what is still open is closed at the end."""
    monkeypatch.setattr("llm_lite.core.engine.engine.Engine", Engine)
    monkeypatch.setenv("LLM_LITE_VALIDATION", "1")
    monkeypatch.setattr(
        "llm_lite.desktop.app.app.CLOSE_SECONDS", 100.0
    )  # then it ends the process, and us
    opened, devices = [], []

    def make(source=None, state=None):
        keeper = SettingsStore(tmp_path / "settings.json")
        one = App(keeper, state or restore(keeper.settings, AppState()), warn)
        opened.append(one)
        devices.append(one.device)
        one.start(source)
        return one

    yield make
    for one in opened:
        if one.window.handle is not None:
            devices.append(one.device)
            one.close()
    assert [m for device in devices for m in device.validation_messages] == []


def turn(app, until, limit=PATIENCE):
    end = time.monotonic() + limit
    while not until(app.program.state):
        assert time.monotonic() < end, "waited too long"
        app.turn()


def ready(app):
    turn(app, lambda s: s.model is not None and s.load is None)
    return app


def settled(app):
    """Nothing is due any more, of what came after input or of the model."""
    turn(app, lambda s: app._pacer.wait(time.monotonic(), 3600.0) == 3600.0)
    return app


def test_a_question_is_answered(app):
    one = settled(ready(app()))
    before = one.screen.loop.frames
    one.program.do(Send("hello"))
    turn(one, lambda s: not s.busy)
    assert one.program.state.messages[-1].stop_reason == "end"
    assert one.screen.loop.frames > before


def test_nothing_is_drawn_while_nothing_happens(app):
    one = settled(ready(app()))
    frames, turns, end = one.screen.loop.frames, 0, time.monotonic() + 1.0
    while time.monotonic() < end:
        one.turn()
        turns += 1
    assert one.screen.loop.frames == frames
    assert turns < 20, "it sleeps in between"


def test_a_minimised_window_sleeps_whatever_input_is_left(app, monkeypatch):
    one = ready(app())
    monkeypatch.setattr(Window, "drawable", property(lambda self: False))
    imgui.get_io().add_mouse_pos_event(5.0, 5.0)
    shown, turns, end = one.program.interface.frames.values().size, 0, time.monotonic() + 1.0
    while time.monotonic() < end:
        one.turn()
        turns += 1
    assert turns < 20
    assert one.program.interface.frames.values().size == shown


def test_an_answer_draws_at_most_thirty_frames_a_second(app, monkeypatch):
    monkeypatch.setattr(Engine, "delay", 0.002)
    one = ready(app())
    start, frames = time.monotonic(), one.screen.loop.frames
    one.program.do(Send("hello"))
    turn(one, lambda s: not s.busy)
    seconds = time.monotonic() - start
    assert one.screen.loop.frames - frames <= 30 * seconds + 10


def test_which_frames_leave_views_their_pictures(app, monkeypatch):
    """Those at once after movements and clicks do; all is drawn again when they settle."""
    one, seen = settled(ready(app())), []
    paint = one.program.paint
    monkeypatch.setattr(
        one.program, "paint", lambda *, following: seen.append(following) or paint()
    )
    imgui.get_io().add_mouse_pos_event(300.0, 300.0)
    turn(one, lambda s: len(seen) == 1)
    assert seen == [True]
    settled(one)
    assert seen[-1] is False
    seen.clear()
    monkeypatch.setattr(pacing, "SETTLE", ((1.0, True),))  # not before a second slow frame
    imgui.get_io().add_mouse_button_event(1, True)
    imgui.get_io().add_mouse_button_event(1, False)
    turn(one, lambda s: len(seen) == 2)
    assert seen == [True, True]
    turn(one, lambda s: False in seen)


@pytest.mark.parametrize("moment", ["loading", "generating"])
def test_closing_does_not_wait_for_what_is_under_way(app, monkeypatch, moment):
    if moment == "loading":
        monkeypatch.setattr(Engine, "delay", 1000.0)
    one = app()
    if moment == "generating":
        one.program.state = replace(one.program.state, load=None)
        ready(one).engine.delay = 1000.0
        one.program.do(Send("hello"))
        turn(one, lambda s: s.running.phase == "prefill")
    assert one.close(), "the engine ended before CLOSE_SECONDS had passed"


def test_lost_device_is_replaced_and_the_conversation_kept(app, monkeypatch):
    one = ready(app())
    one.program.do(Send("hello"))
    turn(one, lambda s: not s.busy)
    messages, old = one.program.state.messages, one.device

    def lost(*_arguments, **_options):
        raise DeviceLostError("The device was lost.")

    monkeypatch.setattr(old.queue, "submit", lost)
    one.program.do(SetTheme("light"))
    one._draw()
    assert one.device is not old
    assert one.engine.devices == [old, None, one.device]
    assert one.program.state.messages == messages
    assert "lost" in one.program.state.notices[-1].text
    frames = one.screen.loop.frames
    turn(one, lambda s: one.screen.loop.frames > frames)


def test_a_device_lost_again_at_once_is_an_error(app, monkeypatch):
    one = ready(app())

    def lost(*_arguments, **_options):
        raise DeviceLostError("The device was lost.")

    for _ in range(2):
        monkeypatch.setattr(one.device.queue, "submit", lost)
        last = one.device
        if one._rebuilt_at > 0:
            with pytest.raises(DeviceLostError):
                one._draw()
        else:
            one._draw()
    monkeypatch.undo()
    assert one.device is last


def test_settings_and_layout_are_remembered(app, tmp_path):
    one = ready(app())
    one.program.do(SetTheme("light"))
    one.program.do(SetSampling(SamplingOptions(temperature=0.3)))
    one.close()
    settings, problems = load(tmp_path / "settings.json")
    assert problems == []
    assert (settings.theme, settings.sampling.temperature) == ("light", 0.3)
    assert "[Docking]" in settings.layout
    assert settings.window.width >= 640
    two = ready(app())
    assert two.program.state.theme == "light"


def test_a_layout_that_would_be_refused_is_not_written(app, monkeypatch, tmp_path):
    """As of a window that was destroyed, whose panels have no size."""
    one = ready(app())
    one._save(0.0, at_once=True)
    kept = one._store.settings.layout
    broken = re.sub(r"(DockSpace.*Size=)\d+,\d+", r"\g<1>4,-13184", kept)
    monkeypatch.setattr(imgui, "save_ini_settings_to_memory", lambda: broken)
    one.program.do(SetTheme("light"))
    one.close()
    settings, problems = load(tmp_path / "settings.json")
    assert (settings.layout, settings.theme, problems) == (kept, "light", [])


def test_options_of_the_command_line_are_not_remembered(app, tmp_path):
    asked = EngineOptions(backend="numpy")
    state = with_asked(AppState(theme="light"), options=asked)
    one = ready(app(state=state))
    assert one.engine.commands[0].options.backend == "numpy"
    one.close()
    settings, _ = load(tmp_path / "settings.json")
    assert settings.options.backend == "auto"
    assert settings.theme == "light"


def test_full_disk_is_said_once_and_nothing_is_lost(app, monkeypatch, capsys):
    one = ready(app())

    def full(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    for size in (18, 19):
        one.program.do(SetFontSize(size))
        one._save(time.monotonic(), at_once=True)
    assert capsys.readouterr().err.count("could not be saved") == 1
    assert "No space left" in one.program.state.notices[-1].text
    assert one.program.state.font_size == 19
    monkeypatch.undo()


def test_broken_settings_are_reported_in_the_window(app, tmp_path):
    (tmp_path / "settings.json").write_text("{")
    one = app()
    assert any("settings.json.broken" in n.text for n in one.program.state.notices)


def test_dropped_file_is_loaded(app):
    one = ready(app())
    one.window.on_drop([Path("/some/missing.gguf")])
    turn(one, lambda s: s.load is None and len(one.engine.commands) == 2)
    assert one.engine.commands[-1].source == "/some/missing.gguf"
    assert "no such file" in one.program.state.notices[-1].text
    assert one.program.state.model is not None


def test_other_dropped_files_go_with_the_draft_and_a_folder_of_a_model_is_opened(app, tmp_path):
    one = ready(app())
    (tmp_path / "a.txt").write_text("some words")
    (tmp_path / "folder").mkdir()
    one.window.on_drop([tmp_path / "a.txt", tmp_path / "folder"])
    turn(one, lambda s: s.files.are_read and len(s.files.files) == 1)
    assert one.program.state.files.files[0].attached.text == "some words"
    assert "is a folder" in one.program.state.notices[-1].text
    (tmp_path / "folder" / "config.json").write_text("{}")
    one.window.on_drop([tmp_path / "folder"])
    turn(one, lambda s: s.load is None and len(one.engine.commands) > 1 and s.files.are_read)
    opened = [c.source for c in one.engine.commands if isinstance(c, LoadModel)]
    assert opened[-1] == str(tmp_path / "folder")


def test_drops_are_imported_while_the_prompts_are_open(app, tmp_path):
    one = ready(app())
    (tmp_path / "short.md").write_text("Say it short.")
    one.program.hosts["prompts"].folder = tmp_path / "prompts"
    turn(one, lambda s: "chat.prompts" in one.program.interface.ui.rects)
    InputDriver(one.program, one._draw).click("chat.prompts")
    one.window.on_drop([tmp_path / "short.md"])
    turn(one, lambda s: [prompt.name for prompt in s.prompts.prompts] == ["short"])
    assert one.program.state.files.files == ()


def test_files_are_chosen_in_a_dialog_of_their_own(app, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    stand_in = tmp_path / "zenity"
    stand_in.write_text(f"#!/bin/sh\nprintf '{tmp_path}/a.txt\\n{tmp_path}/b.txt\\n'\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    one = ready(app())
    one.program.do(ChooseAttachments())
    turn(one, lambda s: len(s.files.files) == 2 and s.files.are_read)
    assert [file.name for file in one.program.state.files.files] == ["a.txt", "b.txt"]


def test_clipboard_bytes_that_are_no_utf_8_are_pasted_as_text(app):
    one = ready(app())
    turn(one, lambda s: "chat.input" in one.program.interface.ui.rects)
    glfw._glfw.glfwSetClipboardString(one.window.handle, b"a\xff\xed\xa0\x80\x1b[2Jb")
    driver = InputDriver(one.program, one._draw)
    driver.click("chat.input")
    driver.press(imgui.Key.mod_ctrl, imgui.Key.v)
    draft = one.program.state.draft
    assert draft.startswith("a") and draft.endswith("b")
    draft.encode()
    assert one.program.state.log[-1].level != "error"


@pytest.mark.parametrize("kind", ["silent", "pieces"])
def test_a_paste_of_another_program(app, kind):
    """One that hangs costs a moment and a sentence; a long one is a chip, with its tabs."""
    one = ready(app())
    turn(one, lambda s: "chat.input" in one.program.interface.ui.rects)
    driver = InputDriver(one.program, one._draw)
    driver.click("chat.input")
    words = [sys.executable, "-m", "tests.desktop.render.x11_owner", kind]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout.readline() == "owns\n"
        driver.press(imgui.Key.mod_ctrl, imgui.Key.v)
        if kind == "silent":
            assert SILENT in [line.text for line in one.program.state.log]
            assert one.program.state.draft == ""
        else:
            (file,) = one.program.state.files.files
            assert file.attached.text == "".join(PIECES)
        owner.kill()


def test_a_dialog_that_names_a_file_that_is_no_utf_8(app, tmp_path, monkeypatch):
    stand_in = tmp_path / "zenity"
    stand_in.write_text("#!/bin/sh\nprintf '/caf\\351.gguf\\n'\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    state = AppState(recent=("/folder\udcff/x.gguf",))
    one = ready(app(state=state))
    opened = []
    monkeypatch.setattr(one._files, "_open", opened.append)
    one.program.do(ChooseFile())
    turn(one, lambda state: opened)
    assert opened == [Path("/caf\udce9.gguf")]


def test_an_engine_that_never_ends_does_not_keep_the_window(app, tmp_path, monkeypatch):
    one, waited = ready(app()), []
    one.program.do(SetTheme("light"))
    with monkeypatch.context() as patch:
        patch.setattr("llm_lite.desktop.app.app.CLOSE_SECONDS", CLOSE_SECONDS)
        patch.setattr(one.engine, "close", waited.append)
        assert not one.close()
    assert 0 < sum(waited) < 2.0
    assert load(tmp_path / "settings.json")[0].theme == "light"


def test_without_a_file_dialog_the_window_has_its_own(app, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    one = ready(app())
    one.program.do(ChooseFile())
    assert one.program.state.chooser.shown and not one.program.state.notices


def test_what_the_command_line_gives_wins():
    remembered = EngineOptions(backend="cpu", threads=2)
    asked = EngineOptions(threads=4)
    state = with_asked(AppState(options=remembered), options=asked)
    assert state.options == EngineOptions(backend="cpu", threads=4)
