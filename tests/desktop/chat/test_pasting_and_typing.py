"""A long text that is pasted, and what is typed while no field has the keyboard."""

import pytest
from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import Ended, Generate
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
from llm_lite.desktop.features.program.loading import _load_ended
from llm_lite.desktop.features.program.model import OpenModel
from llm_lite.desktop.features.program.state import AppState, Load
from llm_lite.desktop.language.incoming import TYPED
from llm_lite.desktop.widgets.text_input import lines_field
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.engine.model import MODEL
from tests.desktop.headless import READY, sent
from tests.paths import ROOT

KEY = imgui.Key
PAGE = "A line of a page that somebody has copied.\n" * (LONG // 20)


@pytest.fixture
def chat(headless):
    def made(context=1 << 16, **changes):
        one = headless(replace(READY, model=replace(MODEL, context=context, **changes)))
        one.program.start(ScriptedEngine(0.0))
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


CODE = "def f(x):\n\tif x:\n\t\treturn 1\n\treturn 2\n"


def test_tabs_of_a_paste_stay(chat):
    """Code loses its blocks without them, in the text and as a chip."""
    one = chat()
    paste(one, CODE)
    assert one.state.draft == CODE
    one.program.do(SetDraft(""))
    one.driver.frames(3)
    paste(one, CODE * 1000)
    (file,) = one.state.files.files
    assert file.attached.text == CODE * 1000


def test_tabs_stay_where_the_keys_are_shift_and_insert(chat):
    one = chat()
    imgui.set_clipboard_text(CODE)
    one.driver.press(KEY.mod_shift, KEY.insert)
    one.driver.frames(4)
    assert one.state.draft == CODE


def test_the_key_still_leaves_the_field(chat):
    one = chat()
    one.driver.type("a")
    paste(one, CODE)
    before = one.state.draft
    assert imgui.get_io().want_text_input
    one.driver.press(KEY.tab)
    one.driver.frames(4)
    assert one.state.draft == before
    assert not imgui.get_io().want_text_input


FIELDS = {
    "plain": 0,
    "wrapped": imgui.InputTextFlags_.word_wrap,
    "that Enter ends": imgui.InputTextFlags_.enter_returns_true
    | imgui.InputTextFlags_.ctrl_enter_for_new_line
    | imgui.InputTextFlags_.word_wrap,
    "that is followed": imgui.InputTextFlags_.callback_always,
}


@pytest.mark.parametrize("name", FIELDS)
def test_tabs_stay_in_each_kind_of_field(headless, name, monkeypatch):
    """The flags of all fields of several lines, in a field of the chat's place."""
    one, words = headless(READY), [""]

    def draw(state, ui):
        imgui.set_keyboard_focus_here()
        flags = FIELDS[name]
        watch = (lambda data: 0) if flags & imgui.InputTextFlags_.callback_always else None
        words[0] = lines_field("##any", words[0], ImVec2(300, 100), flags, watch)[1]
        return []

    monkeypatch.setattr("llm_lite.desktop.features.chat.view.draw_composer", draw)
    one.driver.frames(3)
    paste(one, CODE)
    assert words[0] == CODE


def test_every_field_of_several_lines_is_one_of_these():
    """A field that calls the library itself loses tabs."""
    calls = [
        str(file.relative_to(ROOT))
        for file in sorted((ROOT / "desktop").rglob("*.py"))
        if "imgui.input_text_multiline(" in file.read_text("utf-8")
    ]
    assert calls == ["desktop/widgets/text_input.py"]


@pytest.mark.parametrize("away", ["palette", "panel", "search"])
def test_the_caret_comes_back_to_its_place(chat, away):
    """After a list, a panel or another field; where a person clicks, it is where they clicked."""
    one = chat()
    one.driver.click("chat.input")
    one.driver.type("half a draft")
    for _ in range(5):
        one.driver.press(KEY.left_arrow)
    if away == "palette":
        one.driver.press(KEY.mod_ctrl, KEY.k)
        one.driver.type("attention")
        one.driver.press(KEY.escape)
    elif away == "panel":
        one.driver.click("rail.system_prompt")
        one.driver.type("Be kind.")
        one.driver.press(KEY.escape)
    else:
        one.driver.press(KEY.mod_ctrl, KEY.mod_shift, KEY.f)
        one.driver.frames(3)
        one.driver.type("words")
        one.driver.press(KEY.escape)
    one.driver.frames(4)
    one.driver.type("X")
    one.driver.frames(3)
    assert one.state.draft == "half a Xdraft"


def test_the_caret_stays_where_escape_is_pressed(chat):
    one = chat()
    one.driver.click("chat.input")
    one.driver.type("half a draft")
    for _ in range(5):
        one.driver.press(KEY.left_arrow)
    one.driver.press(KEY.escape)
    one.driver.frames(3)
    one.driver.type("X")
    one.driver.frames(3)
    assert one.state.draft == "half a Xdraft"


def test_a_picture_that_is_pasted_is_no_text_and_that_is_said(chat):
    one = chat()
    one.driver.click("chat.input")
    paste(one, "")
    paste(one, "")
    (notice,) = one.state.notices
    assert "no text" in notice.text and MODEL.name in notice.text
    paste(one, "words")
    assert len(one.state.notices) == 1 and one.state.draft == "words"


@pytest.fixture
def loading(headless):
    """A window whose model comes when the test says so."""
    one, engine = headless(AppState()), ScriptedEngine(0.0)
    one.program.start(engine)
    one.program.do(OpenModel(None))
    one.program.state = replace(one.state, load=Load("slow", asked=one.state.load.asked))
    events = one.program.engine.poll
    held = []
    engine.poll = lambda: held.extend(events()) or []
    one.driver.click("chat.input")
    one.driver.type("Why?")
    one.driver.press(KEY.enter)
    one.driver.frames(2)

    def arrive():
        engine.poll = lambda: [held.pop(0) for _ in range(len(held))] or events()

    return one, engine, arrive


def test_a_message_waits_for_the_model(loading):
    one, engine, arrive = loading
    assert one.state.queued and one.state.draft == "Why?" and not one.state.notices
    assert sent(engine, Generate) == []
    arrive()
    one.driver.wait("the answer", lambda s: len(s.messages) == 2 and not s.busy, pace=0)
    assert one.state.messages[0].text == "Why?"
    assert (one.state.draft, one.state.queued) == ("", False)
    assert len(sent(engine, Generate)) == 1


@pytest.mark.parametrize("how", ["escape", "typing"])
def test_it_waits_no_more_where_a_person_goes_on_writing(loading, how):
    one, engine, arrive = loading
    for _ in range(3):
        one.driver.press(KEY.left_arrow)
    one.driver.press(KEY.escape) if how == "escape" else one.driver.type(" And how?")
    one.driver.frames(2)
    assert not one.state.queued and one.driver.shows("chat.input")
    draft = one.state.draft
    assert draft == ("Why?" if how == "escape" else "W And how?hy?")
    arrive()
    one.driver.wait("the model", lambda s: s.model is not None and s.load is None, pace=0)
    one.driver.frames(3)
    assert sent(engine, Generate) == [] and one.state.draft == draft
    one.driver.type("X")
    one.driver.frames(2)
    assert one.state.draft.index("X") == 1 + len(draft) - len("Why?"), "the caret is where it was"


def test_a_draft_that_comes_back_has_the_caret_at_its_end(chat):
    one = chat()
    one.driver.click("chat.input")
    one.driver.type("other words")
    one.driver.press(KEY.home)
    one.program.state = replace(one.state, draft="half a draft")  # as of another conversation
    one.driver.frames(3)
    one.driver.type("X")
    one.driver.frames(2)
    assert one.state.draft == "half a draftX"


def test_it_stays_in_the_input_where_no_model_came(loading):
    one, _, _ = loading
    one.program.state = replace(one.state, load=None)
    one.driver.frames(3)
    assert one.state.draft == "Why?" and not one.state.queued and len(one.state.notices) == 1


def test_a_message_for_a_model_that_does_not_come_does_not_go_to_the_one_before(loading):
    one, _, arrive = loading
    arrive()
    one.driver.wait("the answer", lambda s: len(s.messages) == 2 and not s.busy, pace=0)
    one.program.do(OpenModel("another"))
    asked = one.state.load.asked
    one.program.state = replace(one.state, draft="And now?", queued=True)
    state = _load_ended(Ended(problem="no such model"), asked, one.state, 0.0)
    assert state.model is not None and not state.queued and state.draft == "And now?"
