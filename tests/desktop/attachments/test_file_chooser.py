"""The window's own file chooser: what a folder holds, and choosing with keys and mouse."""

import os
from pathlib import Path

import pytest
from imgui_bundle import imgui

from llm_lite.core.records import replace
from llm_lite.desktop.app.choosing import FileChoice
from llm_lite.desktop.features.attachments.model import AttachFiles, ChooseAttachments
from llm_lite.desktop.features.file_chooser import host as dialogs
from llm_lite.desktop.features.file_chooser.model import BrowseFolder, CloseFiles, ShowFiles
from llm_lite.desktop.features.file_chooser.state import FileEntry, FilesState, parent_of
from llm_lite.desktop.features.history.model import ChooseConversations, ImportConversations
from llm_lite.desktop.features.library.model import ChooseImport, ImportLocal
from llm_lite.desktop.features.program.model import ChooseFile, OpenModel
from tests.desktop.headless import READY

KEY = imgui.Key


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "models"
    (folder / "Qwen3").mkdir(parents=True)
    (folder / "Qwen3" / "config.json").write_text("{}")
    (folder / ".cache").mkdir()
    for name in ("b.gguf", "a.GGUF", "notes.md", ".hidden.gguf", "한국어.txt"):
        (folder / name).write_bytes(b"x" * 2048)
    return folder


@pytest.fixture
def chooser(headless, place):
    """A window that shows the folder, to choose for a purpose."""

    def make(purpose="model", size=(1280, 720), **changes):
        one = headless(replace(READY, **changes), size=size)
        one.program.do(ShowFiles(purpose, str(place)))
        one.driver.wait("the folder", lambda s: s.chooser.entries)
        one.driver.frames(4)
        return one

    return make


def names(one, query=""):
    return [entry.name for entry in one.state.chooser.listed(query)]


def browsed(one, folder):
    one.driver.wait(str(folder), lambda s: s.chooser.folder == str(folder) and not s.chooser.wanted)
    one.driver.frames(3)


def test_a_folder_is_listed(place):
    found = dialogs.listing(str(place))
    assert found.folder == str(place) and not found.problem
    assert (
        FileEntry("Qwen3", True) in found.entries
        and FileEntry("b.gguf", False, 2048) in found.entries
    )
    assert dialogs.listing(str(place / "b.gguf")).named == "b.gguf"
    assert dialogs.listing(str(place / "b.gguf")).folder == str(place)
    assert dialogs.listing("~").folder == str(Path.home())


@pytest.mark.parametrize("asked", ["/no/such/folder", "/\0", "~nobody-of-this-name/x"])
def test_what_cannot_be_listed_is_a_sentence(asked):
    found = dialogs.listing(asked)
    assert found.problem and "\n" not in found.problem and found.entries == ()


def test_odd_names_and_links_are_listed(tmp_path):
    name = os.fsdecode(b"caf\xe9.gguf")
    (tmp_path / name).write_bytes(b"x")
    (tmp_path / "lost.gguf").symlink_to(tmp_path / "nowhere")
    found = {entry.name: entry for entry in dialogs.listing(str(tmp_path)).entries}
    assert found[name].size == 1 and found["lost.gguf"].size == -1


def test_a_folder_of_many_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(dialogs, "MOST_ENTRIES", 3)
    for number in range(5):
        (tmp_path / str(number)).touch()
    found = dialogs.listing(str(tmp_path))
    assert len(found.entries) == 3 and found.left_out == 2


def test_what_is_shown_of_a_folder():
    entries = (FileEntry("z", True), FileEntry("B.gguf", False, 1), FileEntry("a.txt", False, 1))
    files = FilesState(entries=(*entries, FileEntry(".x", True)))
    assert [e.name for e in files.listed("")] == ["z", "B.gguf"]
    assert [e.name for e in replace(files, hidden=True).listed("")] == [".x", "z", "B.gguf"]
    assert [e.name for e in replace(files, all_kinds=True).listed("")] == ["z", "a.txt", "B.gguf"]
    assert [e.name for e in replace(files, purpose="attach").listed("A.T")] == ["a.txt"]
    assert parent_of("/a/b") == "/a" and parent_of("/") == "/"


def test_a_model_is_opened_with_the_keyboard_alone(chooser, place):
    one = chooser()
    assert names(one) == ["Qwen3", "a.GGUF", "b.gguf"]
    one.driver.type("b.g")
    one.driver.press(KEY.enter)
    one.driver.frames(2)
    assert one.did(OpenModel) == [OpenModel(str(place / "b.gguf"))]
    assert not one.state.chooser.shown and not one.driver.shows("files")
    assert one.state.chooser.recent == (str(place),)


def test_folders_are_gone_through_with_the_keyboard(chooser, place):
    one = chooser()
    one.driver.press(KEY.enter)  # the first row
    browsed(one, place / "Qwen3")
    assert names(one) == ["config.json"]
    one.driver.press(KEY.backspace)
    browsed(one, place)
    one.driver.type("x")
    one.driver.press(KEY.backspace)  # takes the letter away, and stays
    one.driver.frames(3)
    assert one.state.chooser.folder == str(place) and not one.state.chooser.wanted
    one.driver.press(KEY.down_arrow)
    one.driver.press(KEY.enter)
    assert one.did(OpenModel) == [OpenModel(str(place / "a.GGUF"))]


def test_a_path_can_be_typed(chooser, place):
    one = chooser()
    one.driver.type(str(place / "Qwen3"))
    one.driver.press(KEY.enter)
    browsed(one, place / "Qwen3")
    one.driver.type(str(place / "b.gguf"))
    one.driver.press(KEY.enter)
    browsed(one, place)
    one.driver.press(KEY.enter)  # the file that was named
    assert one.did(OpenModel) == [OpenModel(str(place / "b.gguf"))]


def test_a_folder_that_cannot_be_read_leaves_the_one_before(chooser, place):
    one = chooser()
    one.program.do(BrowseFolder("/no/such"))
    one.driver.wait("the answer", lambda s: s.chooser.problem)
    one.driver.frames(2)
    assert one.driver.shows("files.problem") and one.state.chooser.folder == str(place)
    assert names(one) == ["Qwen3", "a.GGUF", "b.gguf"]


def test_files_are_attached_with_the_mouse(chooser, place):
    one = chooser("attach")
    assert names(one) == ["Qwen3", "a.GGUF", "b.gguf", "notes.md", "한국어.txt"]
    one.driver.click("files.row.3")
    one.driver.click("files.row.4")
    one.driver.click("files.row.2")
    one.driver.frames(30)  # else it is a double click, which opens
    one.driver.click("files.row.2")  # not this one
    one.driver.click("files.open")
    paths = (str(place / "notes.md"), str(place / "한국어.txt"))
    assert one.did(AttachFiles) == [AttachFiles(paths)]
    assert one.did(CloseFiles) == [CloseFiles(paths)]


def test_hidden_files_and_all_kinds_are_shown_on_wish(chooser):
    one = chooser()
    one.driver.click("files.hidden")
    one.driver.frames(2)
    assert ".hidden.gguf" in names(one) and ".cache" in names(one)
    one.driver.click("files.kinds")
    one.driver.frames(2)
    assert "notes.md" in names(one)


@pytest.mark.parametrize("way", ["escape", "button"])
def test_it_is_left_without_a_choice(chooser, way):
    one = chooser("import")
    one.driver.press(KEY.escape) if way == "escape" else one.driver.click("files.close")
    one.driver.frames(3)
    assert not one.driver.shows("files") and one.did(ImportLocal) == []
    one.driver.type("on with the chat")
    assert one.state.draft == "on with the chat"


@pytest.mark.parametrize(("size", "font"), [((640, 400), 15), ((960, 540), 26), ((2560, 1440), 20)])
def test_it_stays_inside_the_window(chooser, size, font):
    one = chooser("attach", size=size, font_size=font)
    x0, y0, x1, y1 = one.driver.rect("files")
    assert x0 >= 0 and y0 >= 0 and x1 <= size[0] and y1 <= size[1] - one.ui.status_height
    rects = [one.driver.rect(f"files.{name}") for name in ("query", "open", "hidden", "row.0")]
    for one_of in rects:
        assert x0 <= one_of[0] and one_of[2] <= x1 and y0 <= one_of[1] and one_of[3] <= y1


@pytest.mark.parametrize(
    "action", [ChooseFile(), ChooseAttachments(), ChooseImport(), ChooseConversations()]
)
def test_it_is_used_where_the_system_has_no_dialog(headless, monkeypatch, action):
    monkeypatch.setattr(dialogs, "LINUX_HELPERS", ("no-such-program",))
    monkeypatch.setattr(dialogs.sys, "platform", "linux")
    one = headless(READY)
    choice = FileChoice(one.program, lambda: None)
    one.program.on_choose_file = choice.choose_model
    one.program.on_choose_attachments = choice.choose_attachments
    one.program.on_choose_import = choice.choose_import
    one.program.on_choose_conversations = choice.choose_conversations
    one.program.do(action)
    one.driver.wait("a folder", lambda s: s.chooser.folder and not s.chooser.wanted)
    one.driver.frames(2)
    assert one.driver.shows("files") and not one.state.notices
    purposes = {
        ChooseFile: "model",
        ChooseAttachments: "attach",
        ChooseImport: "import",
        ChooseConversations: "conversations",
    }
    assert one.state.chooser.purpose == purposes[type(action)]


def test_a_file_of_conversations_is_chosen_among_such_files(headless, tmp_path):
    for name in ("talks.json", "notes.txt", "model.gguf"):
        (tmp_path / name).write_text("x")
    one = headless(READY)
    one.program.do(ShowFiles("conversations", str(tmp_path)))
    one.driver.wait("the folder", lambda s: s.chooser.entries)
    one.driver.frames(2)
    assert [entry.name for entry in one.state.chooser.listed("")] == ["talks.json"]
    one.driver.click("files.row.0")
    one.driver.click("files.open")
    assert one.did(ImportConversations) == [ImportConversations(str(tmp_path / "talks.json"))]
