"""Files in the draft and in the chat: chips, previews, the budget, what is unfolded."""

import pytest
from imgui_bundle import imgui

from llm_lite.core.attached_text import Attachment
from llm_lite.core.history import ConversationTree
from llm_lite.core.records import replace
from llm_lite.desktop.features.attachments import text_box
from llm_lite.desktop.features.attachments.chip import about, note
from llm_lite.desktop.features.attachments.model import (
    AttachFiles,
    ChooseAttachments,
    FileRead,
    FitFiles,
    UnfoldAttachment,
)
from llm_lite.desktop.features.chat.model import Send
from llm_lite.desktop.features.program.state import Message
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.engine.model import MODEL
from tests.desktop.headless import READY


@pytest.fixture
def chat(headless):
    def made(*texts, context=1024, state=READY):
        one = headless(replace(state, model=replace(MODEL, context=context)))
        one.program.start(ScriptedEngine(0.0))
        for number, text in enumerate(texts, 1):
            one.program.do(AttachFiles((f"/nowhere/{number}.md",)))
            one.program.do(FileRead(number, Attachment("x", text, kind="markdown")))
        one.driver.wait("the counts", lambda s: all(f.tokens > 0 for f in s.files.files))
        one.driver.frames(3)
        return one

    return made


def test_the_paperclip_asks_for_files(chat):
    one = chat()
    one.driver.click("chat.attach")
    assert one.did(ChooseAttachments)


def test_a_chip_is_removed_by_its_cross(chat):
    one = chat("some words", "other words")
    one.driver.click("attachment.1.remove")
    assert [file.key for file in one.state.files.files] == [2]
    assert not one.driver.shows("attachment.1")


def test_a_chip_shows_its_text(chat):
    one = chat("some words\n" * 100)
    one.driver.click("attachment.1")
    assert one.driver.shows("attachments.preview.text")
    low, high = one.driver.rect("attachments.preview")[1], one.driver.rect("attachments.preview")[3]
    assert low >= 0 and high <= 720
    one.driver.click("attachments.preview.remove")
    assert one.state.files.files == () and not one.driver.shows("attachments.preview")


def test_only_files_make_the_button_ready(chat):
    one = chat("some words")
    one.driver.click("chat.send")
    assert one.did(Send) and one.state.messages[0].attachments


def test_what_does_not_fit_is_said_and_can_be_cut(chat):
    one = chat("a line of words\n" * 900)
    before = one.driver.rect("chat.input")
    assert one.driver.shows("attachments.fit")
    one.driver.click("attachments.fit")
    assert one.did(FitFiles)
    one.driver.wait("the cut", lambda s: s.files.counting is None and s.files.files[0].tokens > 0)
    one.driver.frames(2)
    assert not one.driver.shows("attachments.fit") and one.driver.rect("chat.input") == before
    one.driver.click("attachment.1")
    one.driver.click("attachments.preview.whole")
    assert not one.state.files.files[0].attached.is_cut


def test_many_files_take_three_lines_and_scroll(chat):
    one = chat(*("words " * n for n in range(1, 31)))
    first, field = one.driver.rect("attachment.1"), one.driver.rect("chat.input")
    assert field[1] - first[1] < 5 * (first[3] - first[1]) + 60
    assert one.driver.rect("view.chat")[3] >= field[3]


def test_a_message_unfolds_the_text_that_was_clicked(chat):
    files = (Attachment("a.md", "text " * 50), Attachment("cat.png", kind="picture"))
    said = (Message("user", "What?", attachments=files), Message("assistant", "This."))
    one = chat(state=replace(READY, tree=ConversationTree(said)))
    height = one.driver.rect("message.0")
    one.driver.click("message.0.file.0")
    assert one.did(UnfoldAttachment) == [UnfoldAttachment(0, 0)]
    one.driver.frames(3)
    assert one.driver.shows("message.0.text")
    taller = one.driver.rect("message.0")
    assert taller[3] - taller[1] > height[3] - height[1]
    one.driver.click("message.0.file.1")
    assert len(one.did(UnfoldAttachment)) == 1, "a picture has nothing to unfold"
    one.driver.click("message.0.file.0")
    assert not one.driver.shows("message.0.text")


def test_a_preview_is_bounded_and_says_so(chat):
    one = chat()
    lines = text_box.preview(one.ui, "x" * 10_000_000).lines
    assert len(lines) == 1 and len(lines[0]) <= text_box.LONGEST_LINE + 2
    long = text_box.preview(one.ui, "line\n" * 50_000)
    assert len(long.lines) == text_box.MOST_LINES and "of 50,001 lines" in long.note
    assert text_box.preview(one.ui, "a\nb").note == ""


def test_notes_say_what_there_is():
    assert note(None, -1) == "Reading"
    assert note(Attachment("a", "text"), 1_200) == "1,200 tokens"
    assert note(Attachment("a", "text", whole=9), 1) == "first part, 1 token"
    picture = Attachment("a", kind="picture")
    assert note(picture, 12) == "only its name" and "sees no pictures" in about(picture, "a")


def test_escape_in_the_input_keeps_the_files(chat):
    one = chat("some words")
    one.driver.click("chat.input")
    one.driver.press(imgui.Key.escape)
    assert len(one.state.files.files) == 1
