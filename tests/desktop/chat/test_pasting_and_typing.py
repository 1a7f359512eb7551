"""A long text that is pasted, and what is typed while no field has the keyboard."""

import pytest
from imgui_bundle import imgui

from llm_lite.core.records import replace
from llm_lite.desktop.features.attachments.model import (
    LONG,
    IntoText,
    Pasted,
    PasteText,
    RemoveFile,
    budget,
    files_obstacle,
    pasted,
)
from llm_lite.desktop.features.chat.model import SetDraft, SetForm
from llm_lite.desktop.language.incoming import TYPED
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.fake_model import MODEL
from tests.desktop.headless import READY

KEY = imgui.Key
PAGE = "A line of a page that somebody has copied.\n" * (LONG // 20)


@pytest.fixture
def chat(headless):
    def made(context=1 << 16, **changes):
        one = headless(replace(READY, model=replace(MODEL, context=context, **changes)))
        one.program.start(FakeEngine(0.0))
        one.driver.frames(3)
        return one

    return made


def paste(one, text):
    imgui.set_clipboard_text(text)
    one.driver.press(KEY.mod_ctrl, KEY.v)
    one.driver.frames(4)


def leave_the_input(one):
    one.driver.press(KEY.f6)
    one.driver.frames(3)
    assert not imgui.get_io().want_text_input


@pytest.mark.parametrize(
    ("was", "now", "found"),
    [
        ("", PAGE, Pasted("", PAGE, "")),
        ("Read this: ", f"Read this: {PAGE}", Pasted("Read this: ", PAGE, "")),
        ("ab", f"a{PAGE}b", Pasted("a", PAGE, "b")),
        ("Read OLD now", f"Read {PAGE} now", Pasted("Read ", PAGE, " now")),
        ("", PAGE[: LONG - 1], None),
        (PAGE, "", None),
    ],
)
def test_what_was_pasted(was, now, found):
    assert pasted(was, now) == found


def test_a_long_paste_becomes_a_chip_and_goes_back_into_the_text(chat):
    one = chat()
    one.driver.type("Sum this up: ")
    paste(one, PAGE)
    assert one.state.draft == "Sum this up: "
    (file,) = one.state.files.files
    assert (file.name, file.attached.text) == ("Pasted text", PAGE)
    one.driver.wait("its tokens", lambda s: s.files.files[0].tokens > 0)
    paste(one, PAGE)
    assert [f.name for f in one.state.files.files] == ["Pasted text", "Pasted text 2"]
    one.program.do(RemoveFile(one.state.files.files[1].key))
    one.driver.click(f"attachment.{file.key}")
    one.driver.frames(3)
    one.driver.click("attachments.preview.into_text")
    one.driver.frames(3)
    assert one.did(IntoText) and not one.state.files.files
    assert one.state.draft == f"Sum this up: \n\n{PAGE}"


def test_a_short_paste_is_text(chat):
    one = chat()
    paste(one, "a word or two")
    assert one.state.draft == "a word or two" and not one.did(PasteText)


def test_a_text_that_the_model_continues_takes_it_as_it_is(chat):
    one = chat(has_chat_template=False)
    paste(one, PAGE)
    assert one.state.draft == PAGE and not one.state.files.files


def test_a_long_draft_is_counted_while_it_is_typed_and_stays_where_it_is_refused(chat):
    one = chat(context=256)
    one.program.do(SetDraft(PAGE))
    one.driver.wait("the count", lambda s: s.files.draft[1] > 0)
    assert not budget(one.state).fits
    assert "Shorten it" in files_obstacle(one.state)
    one.driver.frames(2)
    assert "attachments.budget" in one.ui.rects
    one.driver.press(KEY.enter)
    one.driver.frames(3)
    assert one.state.draft == PAGE and not one.state.messages
    assert "does not fit" in one.state.notices[-1].text


def test_what_does_not_fit_into_the_input_is_said(chat):
    one = chat()
    one.program.do(SetDraft("a" * (TYPED + 1)))
    assert len(one.state.draft) == TYPED
    assert "the rest was left out" in one.state.notices[-1].text


def test_typing_with_no_field_goes_to_the_input(chat):
    one = chat()
    leave_the_input(one)
    one.driver.type("Hello")
    one.driver.frames(4)
    assert one.state.draft == "Hello"
    one.driver.type(" there, 안녕")
    one.driver.frames(2)
    assert one.state.draft == "Hello there, 안녕"
    assert imgui.get_io().want_text_input


def test_characters_in_frames_one_after_the_other_come_once_and_in_order(chat):
    one = chat()
    leave_the_input(one)
    for character in "one two three":
        imgui.get_io().add_input_character(ord(character))
        one.draw()
    one.driver.frames(4)
    assert one.state.draft == "one two three"


def test_a_dialog_a_page_and_another_field_keep_what_is_typed(chat):
    one = chat()
    leave_the_input(one)
    one.driver.press(KEY.mod_ctrl, KEY.k)
    one.driver.frames(3)
    one.driver.type("set")
    one.driver.frames(3)
    assert one.state.draft == ""
    one.driver.press(KEY.escape)
    one.driver.frames(3)


def test_what_is_composed_without_a_field_opens_the_input(chat):
    """An input method holds the first keys back: they go on in the input."""
    from llm_lite.desktop.app.input_method.messages import Composition

    one = chat()
    leave_the_input(one)
    assert one.program.interface.takes_typing
    one.program.interface.composition = Composition("ㅎ", 1)
    one.driver.frames(4)
    assert imgui.get_io().want_text_input
    one.program.interface.composition = Composition()
    imgui.get_io().add_input_characters_utf8("한")
    one.driver.frames(3)
    assert one.state.draft == "한"


def test_the_form_of_a_conversation_is_said_above_it_and_can_be_changed(chat):
    one = chat(has_chat_template=False)
    assert "chat.form_note" in one.ui.rects
    one.driver.click("chat.other_form")
    one.driver.frames(3)
    assert one.did(SetForm) == [SetForm("chat")]
    one = chat()
    assert "chat.form_note" not in one.ui.rects
