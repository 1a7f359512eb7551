"""The library of prompts beside the input, by mouse and by keyboard."""

import pytest
from imgui_bundle import imgui

from llm_lite.desktop.features.chat.model import Send, SetDraft
from llm_lite.desktop.features.prompts.host import PromptFiles
from llm_lite.desktop.features.prompts.model import ImportPrompts, PromptsRead
from llm_lite.desktop.features.prompts.state import SavedPrompt
from llm_lite.desktop.features.prompts.view import shows_prompts

PROMPTS = (
    SavedPrompt("Explain", "Explain {{subject}} in {{words}} words."),
    SavedPrompt("Sum up", "Say it short."),
    SavedPrompt("Translate", "Translate this."),
)


@pytest.fixture
def chat(headless):
    one = headless()
    one.program.do(PromptsRead(PROMPTS))
    one.driver.click("chat.input")
    return one


def test_a_slash_lists_filters_and_inserts(chat):
    chat.driver.type("/")
    assert [chat.driver.shows(f"slash.{n}") for n in range(4)] == [True, True, True, False]
    chat.driver.type("t")
    chat.driver.press(imgui.Key.down_arrow)
    assert chat.driver.shows("slash.0")
    chat.driver.press(imgui.Key.up_arrow)
    chat.driver.press(imgui.Key.enter)
    assert chat.state.draft == "Translate this." and not chat.did(Send)
    chat.driver.type(" Now")
    assert chat.state.draft == "Translate this. Now", "the caret stands at the end"


def test_arrows_choose_and_the_pointer_too(chat):
    chat.driver.type("/")
    chat.driver.press(imgui.Key.down_arrow)
    chat.driver.press(imgui.Key.enter)
    assert chat.state.draft == "Say it short."
    chat.program.do(SetDraft(""))
    chat.driver.frames(3)
    chat.driver.type("/")
    chat.driver.click("slash.2")
    assert chat.state.draft == "Translate this."


def test_escape_closes_the_list_and_the_text_stays(chat):
    chat.driver.type("/su")
    chat.driver.press(imgui.Key.escape)
    assert not chat.driver.shows("slash.0") and chat.state.draft == "/su"
    chat.driver.type("m")
    assert chat.driver.shows("slash.0")


def test_what_names_no_prompt_is_sent_as_it_is(chat):
    chat.driver.type("/etc/hosts")
    assert not chat.driver.shows("slash.0")
    chat.driver.press(imgui.Key.enter)
    assert chat.did(Send) == [Send("/etc/hosts")]
    assert not chat.driver.shows("slash.0")


def test_places_are_asked_for_with_the_keyboard_alone(chat):
    chat.driver.type("/exp")
    chat.driver.press(imgui.Key.enter)
    assert chat.driver.shows("prompts.places") and chat.state.draft == "/exp"
    chat.driver.frames(2)
    chat.driver.type("rain")
    chat.driver.press(imgui.Key.enter)
    chat.driver.type("ten")
    chat.driver.press(imgui.Key.enter)
    assert chat.state.draft == "Explain rain in ten words."
    assert not chat.driver.shows("prompts.places")


def test_a_place_that_stays_empty_is_left_and_escape_inserts_nothing(chat):
    chat.driver.type("/exp")
    chat.driver.press(imgui.Key.enter)
    chat.driver.press(imgui.Key.escape)
    assert chat.state.draft == "/exp"
    chat.driver.frames(3)
    chat.driver.click("slash.0")
    chat.driver.frames(2)
    chat.driver.type("rain")
    chat.driver.click("prompts.places.insert")
    assert chat.state.draft == "Explain rain in {{words}} words."


def test_the_panel_inserts_behind_the_draft(chat):
    chat.driver.type("Look:")
    chat.driver.click("chat.prompts")
    chat.driver.click("prompts.1")
    assert chat.state.draft == "Look:\n\nSay it short."


def test_a_prompt_is_written_edited_deleted_and_brought_back(chat, tmp_path):
    chat.program.use("prompts", PromptFiles(tmp_path))
    chat.driver.type("Tell me a story.")
    chat.driver.click("chat.prompts")
    chat.driver.wait("the folder", lambda s: s.prompts.prompts == ())
    chat.driver.frames(2)
    chat.driver.click("prompts.save")
    chat.driver.click("prompts.edit.name")
    chat.driver.type("Story")
    chat.driver.click("prompts.edit.save")
    story = SavedPrompt("Story", "Tell me a story.")
    chat.driver.wait("the prompt", lambda s: s.prompts.prompts == (story,))
    assert (tmp_path / "Story.md").read_text() == "Tell me a story.\n"
    chat.driver.frames(2)
    chat.driver.point("prompts.0")
    chat.driver.click("prompts.0.edit")
    chat.driver.click("prompts.edit.name")
    chat.driver.press(imgui.Key.end)
    chat.driver.type(" 2")
    chat.driver.click("prompts.edit.save")
    chat.driver.wait("the name", lambda s: [p.name for p in s.prompts.prompts] == ["Story 2"])
    chat.driver.frames(2)
    chat.driver.point("prompts.0")
    chat.driver.click("prompts.0.delete")
    chat.driver.wait("the end of it", lambda s: s.prompts.deleted is not None)
    chat.driver.frames(2)
    chat.driver.click("prompts.undo")
    chat.driver.wait("its return", lambda s: [p.name for p in s.prompts.prompts] == ["Story 2"])


def test_a_path_is_imported_and_drops_go_there_while_it_is_open(chat):
    chat.driver.click("chat.prompts")
    assert shows_prompts(chat.ui)
    chat.driver.click("prompts.path")
    chat.driver.type("/some/prompts")
    chat.driver.click("prompts.import")
    assert chat.did(ImportPrompts) == [ImportPrompts(("/some/prompts",))]
    chat.driver.click("prompts.close")
    chat.driver.frames(2)
    assert not shows_prompts(chat.ui)


def test_without_prompts_examples_are_offered(chat, tmp_path):
    chat.program.use("prompts", PromptFiles(tmp_path))
    chat.driver.click("chat.prompts")
    chat.driver.wait("the folder", lambda s: s.prompts.prompts == ())
    chat.driver.frames(2)
    chat.driver.click("prompts.examples")
    chat.driver.wait("examples", lambda s: len(s.prompts.prompts) > 2)
    assert len(list(tmp_path.glob("*.md"))) == len(chat.state.prompts.prompts)
