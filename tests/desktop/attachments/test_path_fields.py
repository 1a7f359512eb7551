"""Every field of a path has buttons that choose it, with one chooser."""

from __future__ import annotations

import pytest
from imgui_bundle import imgui

from llm_lite.core.history.tree import ConversationTree
from llm_lite.core.records import replace
from llm_lite.desktop.features.attachments.model import AttachFiles
from llm_lite.desktop.features.chat.panels import SavePanel
from llm_lite.desktop.features.file_chooser.host import FOLDER, begin_choosing, wish_for
from llm_lite.desktop.features.file_chooser.model import ChoosePath, CloseFiles
from llm_lite.desktop.features.file_chooser.state import PathTarget
from llm_lite.desktop.features.history.model import RowsRead
from llm_lite.desktop.features.history.state import ConversationRow
from llm_lite.desktop.features.program.state import Message
from llm_lite.desktop.features.prompts.model import ImportPrompts
from llm_lite.desktop.features.tools.view import ToolControls
from tests.desktop.headless import READY


@pytest.fixture
def here(headless, tmp_path):
    """A window whose chooser begins in a folder with a file in it."""
    (tmp_path / "a file.json").write_text("{}")
    (tmp_path / "inner").mkdir()
    one = headless(READY, size=(1400, 900))

    def choose(action):
        asked = begin_choosing(action.purpose, one.state, action.target)
        one.program.do(replace(asked, folder=str(tmp_path)))

    one.program.on_choose_path = choose
    return one


def chosen(one, field, pick, shows=None):
    """What a person chooses: a file, which is the second row, or the folder itself."""
    one.driver.click(f"{field}.{pick}")
    one.driver.wait("the folder", lambda s: s.chooser.shown and not s.chooser.wanted)
    one.driver.frames(3)
    if pick == "file":
        one.driver.click("files.row.1")
    one.driver.click("files.open")
    one.driver.frames(6)
    assert one.did(CloseFiles) and not one.state.chooser.shown and not one.did(AttachFiles)
    assert one.driver.shows(shows or field), "its panel is there again"


def test_prompts_and_presets(here, tmp_path):
    here.driver.click("chat.prompts")
    chosen(here, "prompts.path", "file")
    here.driver.click("prompts.import")
    assert here.done[-1].paths == (str(tmp_path / "a file.json"),)
    here.driver.press(imgui.Key.escape)
    here.driver.click("rail.sampler")
    here.driver.frames(3)
    here.driver.click("presets.more")
    chosen(here, "presets.path", "folder")
    here.driver.click("presets.export")
    assert here.done[-1].path == str(tmp_path / "preset.json")


def test_a_tools_command_is_quoted(here, tmp_path):
    here.driver.click("rail.tools")
    here.driver.frames(3)
    here.driver.click("tools.tab.declare")
    here.driver.frames(3)
    chosen(here, "tools.path", "file")
    here.driver.click("tools.import")
    assert here.done[-1].path == str(tmp_path / "a file.json")
    here.driver.click("tools.tab.servers")
    here.driver.frames(3)
    here.driver.click("tools.new")
    here.driver.frames(3)
    chosen(here, "tools.form.command", "file")
    quoted = f"'{tmp_path / 'a file.json'}'"
    assert here.ui.local(ToolControls).form.command == quoted
    here.ui.local(ToolControls).form.command = "python -m server --file "
    chosen(here, "tools.form.command", "file")
    assert here.ui.local(ToolControls).form.command == f"python -m server --file {quoted}"


def test_an_export_keeps_its_name_in_the_folder_that_is_chosen(here, tmp_path):
    here.program.do(RowsRead("all", (ConversationRow(7, "The sea", 1.0),), more=False))
    here.driver.frames(3)
    here.driver.point("history.row.7")
    here.driver.click("history.row.7.more")
    here.driver.frames(3)
    here.driver.click("history.menu.export")
    here.driver.frames(3)
    chosen(here, "history.export.path", "folder")
    here.driver.click("history.export.json")
    assert here.done[-1].path == str(tmp_path / "The sea.json")


def test_code_waits_for_its_folder(here, tmp_path):
    said = Message("assistant", "Here it is.", stop_reason="end")
    here.program.state = replace(here.state, tree=ConversationTree((Message("user", "?"), said)))
    here.driver.frames(2)
    panel = here.ui.local(SavePanel)
    panel.code, panel.path, here.ui.opened = "x = 1", "/somewhere/code.py", "code.save"
    here.driver.frames(3)
    chosen(here, "code.save.path", "folder")
    assert (panel.code, panel.path) == ("x = 1", str(tmp_path / "code.py"))
    here.driver.press(imgui.Key.escape)
    here.driver.frames(2)
    assert panel.code is None


def test_what_is_left_changes_nothing(here):
    here.driver.click("chat.prompts")
    here.driver.click("prompts.path.folder")
    here.driver.wait("the folder", lambda s: s.chooser.shown and not s.chooser.wanted)
    here.driver.frames(3)
    here.driver.click("files.close")
    here.driver.frames(6)
    assert here.driver.shows("prompts.path")
    here.driver.click("prompts.import")
    assert not here.did(ImportPrompts)


def test_the_systems_dialog_is_asked_for_a_folder_or_for_such_files():
    target = PathTarget("presets.path", "sampler", ("*.json",))
    assert wish_for(ChoosePath(target, folder=True)) == replace(FOLDER, target=target)
    wish = wish_for(ChoosePath(target))
    assert (wish.purpose, wish.kinds[0]) == ("path", ("*.json", "*.json")) and not wish.many
