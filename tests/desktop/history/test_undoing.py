"""Everything that changes a conversation is undone and done again, in the order it was done."""

import json
from itertools import pairwise

import pytest

from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import Cancel, Generate, Thinking
from llm_lite.core.text.thinking import Split
from llm_lite.core.tools.calls import CallSplit
from llm_lite.desktop.features.chat.model import (
    EditMessage,
    NewChat,
    Regenerate,
    Send,
    SetSystemPrompt,
)
from llm_lite.desktop.features.chat.state import Thought
from llm_lite.desktop.features.history.model import (
    DeleteAll,
    ForkConversation,
    ImportConversations,
    PinConversation,
    RedoHistory,
    RenameConversation,
    RowsChanged,
    ShowHistoryPart,
    UndoHistory,
    WantMoreRows,
)
from llm_lite.desktop.features.history.state import ROWS
from llm_lite.desktop.features.presets.model import Preset, UsePreset
from llm_lite.desktop.features.program.requests import leave_answer
from llm_lite.desktop.features.program.state import AppState, Message, Running
from llm_lite.desktop.features.tree.model import ContinueFrom, ShowMessage, SwitchVersion
from llm_lite.desktop.features.undo.model import undo_label
from tests.desktop.history.test_history import Chat
from tests.desktop.other_versions import others


@pytest.fixture
def chat(tmp_path):
    """chat() begins the program; again, it ends and begins it again."""
    made = []

    def make(**options):
        if made:
            made.pop().close()
        made.append(Chat(tmp_path / "history.db", **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def look(state):
    """What is shown, and what it was told."""
    places = [state.tree.version(index) for index in range(len(state.messages))]
    return [(m.role, m.text) for m in state.messages], places, state.system_prompt


def steps_of(one):
    """Each thing that changes a conversation, by its label."""
    choice = one.state.messages[1].tokens[3].alternatives[1]
    return {
        "edit of a question": (EditMessage(2), Send("Second, otherwise")),
        "another answer": (Regenerate(1),),
        "fork from a token": (ContinueFrom(1, 3, choice),),
        "choice of a version": (SwitchVersion(1, 0),),
        "edit of an answer": (EditMessage(1), Send("What I make of it.")),
        "choice on the map": (ShowMessage(one.state.messages[3].id),),
        "change of the system prompt": (SetSystemPrompt("Be long."),),
        "preset": (UsePreset(Preset("X", "Be a pirate.", one.state.sampling)),),
    }


def test_each_thing_is_undone_and_done_again(chat):
    one = chat()
    one.do(Send("First"), Send("Second"))
    looks = [look(one.state)]
    steps = steps_of(one)
    for label, actions in steps.items():
        one.do(*actions)
        assert undo_label(one.state) == label
        looks.append(look(one.state))
    assert all(a != b for a, b in pairwise(looks))
    everything = one.state.tree.count
    for label, before in zip(reversed(steps), reversed(looks[:-1]), strict=True):
        one.do(UndoHistory())
        assert look(one.state) == before
        assert one.state.notices[-1].text == f"Undone: {label}."
    assert undo_label(one.state) == ""
    for label, after in zip(steps, looks[1:], strict=True):
        assert undo_label(one.state, back=False) == label
        one.do(RedoHistory())
        assert look(one.state) == after
    assert one.state.tree.count == everything  # nothing is lost on the way
    assert [m.text for m in one.stored().path] == [m.text for m in one.state.messages]


def test_the_list_and_the_chat_are_undone_in_one_order(chat):
    one = chat()
    one.do(Send("First"), Regenerate(1))
    number = one.state.history.open
    one.rows(bool)
    one.do(RenameConversation(number, "Mine"), SwitchVersion(1, 0), PinConversation(number, True))
    one.do(UndoHistory())  # before the history has answered
    one.wait(lambda s: not s.undoing.waiting and not s.history.rows[0].pinned)
    assert (one.state.tree.version(1), one.state.history.rows[0].title) == (0, "Mine")
    one.do(UndoHistory())
    assert one.state.tree.version(1) == 1
    one.do(UndoHistory())
    one.rows(lambda t: t == ["First"])
    one.do(RedoHistory())
    one.rows(lambda t: t == ["Mine"])
    one.do(RedoHistory())
    assert one.state.tree.version(1) == 0


def test_a_defect_of_one_change_is_not_taken_for_the_next_one(chat, monkeypatch):
    one = chat()
    one.do(Send("First"))
    number = one.state.history.open
    one.rows(bool)
    monkeypatch.setattr(one.program.history._journal, "pin", lambda *_: 1 / 0)
    one.do(PinConversation(number, True), RenameConversation(number, "Mine"))
    one.wait(lambda s: not s.undoing.waiting)
    assert [(step.label, step.number > 0) for step in one.state.undoing.done] == [
        ("renaming", True)
    ]


def test_what_changed_nothing_is_no_step(chat):
    one = chat()
    one.do(Send("First"), SwitchVersion(1, 0), SetSystemPrompt(one.state.system_prompt))
    one.do(PinConversation(one.state.history.open, False), RenameConversation(1, "Nobody"))
    one.wait(lambda s: not s.undoing.waiting)
    assert one.state.undoing.done == ()
    one.do(UndoHistory())
    assert one.state.notices[-1].text == "There is nothing to undo."


def test_typing_a_prompt_is_one_step(chat):
    one = chat()
    one.do(Send("First"), *(SetSystemPrompt("Be kind."[:n]) for n in range(9)))
    one.do(UndoHistory())
    assert one.state.system_prompt == "Be brief."
    assert one.state.undoing.done == ()


def test_undo_while_an_answer_is_written_keeps_what_it_said(chat):
    one = chat(delay=0.01)
    one.program.do(Send("First"))
    one.wait(lambda s: not s.busy)
    first = one.state.messages[1].text
    one.program.do(Regenerate(1))
    one.wait(lambda s: len(s.messages[1].tokens) > 3)
    one.program.do(UndoHistory())
    assert not one.state.busy and one.state.messages[1].text == first
    one.wait(lambda s: one.engine.is_idle)
    one.program.update()
    said = others(one.state, 1)[0]
    assert said.stop_reason == "stopped" and said.text and first.startswith(said.text)
    kept = {m.text: m.finished for m in one.stored() if m.role == "assistant"}
    assert kept == {first: True, said.text: True}, "also while it is not shown"
    one.program.do(RedoHistory())
    assert one.state.messages[1].text == said.text
    assert one.stored().path[-1].text == said.text


def test_an_answer_that_is_left_shows_no_marks_of_its_call():
    """Nor is its call one that is still being written."""
    said = '<think>Hm.</think>I look.\n<tool_call>\n{"name": "weather", "argu'
    thought = Thought(Split.of(Thinking("think")).fed(said))
    calls = CallSplit("tags").fed(thought.split.visible_text)
    answer = Message("assistant", calls.visible_text, thought=thought, calls=calls)
    asked = Generate(())
    state = AppState(
        tree=ConversationTree((Message("user", "a"), answer)), running=Running(asked, 0.0)
    )
    state, commands = leave_answer(state)
    (_, left) = state.messages
    assert (left.text, left.stop_reason, left.calls.begun) == ("I look.", "stopped", None)
    assert left.calls.calls[0].problem and left.whole == said
    assert commands == (Cancel(asked),) and commands[0].command is asked


def test_steps_are_those_of_the_conversation_in_the_chat(chat):
    one = chat()
    one.do(Send("First"), Regenerate(1))
    first = one.state.history.open
    one.do(NewChat(), Send("Other"), Regenerate(1))
    other = one.state.history.open
    one.do(UndoHistory(), UndoHistory())
    assert one.state.tree.version(1) == 0
    assert one.state.notices[-1].text == "There is nothing to undo."
    one.open(first)
    assert one.state.tree.version(1) == 1
    one.do(UndoHistory())
    assert one.state.tree.version(1) == 0
    one.open(other)
    one.do(RedoHistory())
    assert one.state.tree.version(1) == 1


def test_a_fork_is_a_conversation_of_the_path_so_far(chat):
    one = chat()
    one.do(Send("First"), Send("Second"), Regenerate(1), Send("Third"))
    number, before = one.state.history.open, one.state.messages
    one.program.do(ForkConversation(one.state.messages[1].id))
    one.wait(lambda s: s.history.open != number and s.history.opening is None)
    fork = one.state.history.open
    assert [m.text for m in one.state.messages] == [m.text for m in before[:2]]
    assert not one.state.tree.aside
    assert [t.id for t in one.state.messages[1].tokens] == [t.id for t in before[1].tokens]
    one.rows(lambda t: t == ["First (fork)", "First"])
    one.do(UndoHistory())
    one.rows(lambda t: t == ["First"])
    one.wait(lambda s: s.history.open == number)
    one.do(RedoHistory())
    one.rows(lambda t: t == ["First (fork)", "First"])
    assert [m.text for m in one.open(fork).messages] == [m.text for m in before[:2]]


def test_what_is_more_than_a_page_stays_in_the_list(chat, tmp_path):
    """The page is read first, and word of each conversation that was saved follows."""
    ages = [float(age) for age in range(2 * ROWS + 1)]
    said = [{"parent": None, "role": "user", "text": "Kept?", "created": 1.0}]
    talks = [
        {"title": f"Talk {age:.0f}", "created": age, "updated": age, "messages": said}
        for age in ages
    ]
    file = tmp_path / "many.json"
    document = {"format": "llm-lite-conversations", "version": 1, "conversations": talks}
    file.write_text(json.dumps(document))
    one, told = chat(), []
    do = one.program.do

    def listen(action):
        if isinstance(action, RowsChanged):
            told.extend(row.id for row in action.rows if row.part == "all")
        do(action)

    one.program.do = listen

    def all_are_listed():
        one.wait(lambda s: len(set(told)) == len(talks))
        assert [row.updated for row in one.state.history.rows] == ages[::-1][:ROWS]
        while one.state.history.more:
            known = len(one.state.history.rows)
            one.program.do(WantMoreRows())
            one.wait(lambda s, known=known: len(s.history.rows) > known or not s.history.more)
        assert [row.updated for row in one.state.history.rows] == ages[::-1]
        told.clear()

    one.do(ImportConversations(str(file)))
    all_are_listed()
    one.do(DeleteAll())
    one.rows(lambda t: not t)
    one.do(UndoHistory())
    all_are_listed()


def test_an_import_and_delete_all_are_undone(chat, tmp_path):
    said = [{"parent": None, "role": "user", "text": "Kept?", "created": 1.0}]
    about = {"title": "From a file", "created": 1.0, "updated": 1.0, "messages": said}
    file = tmp_path / "some.json"
    document = {"format": "llm-lite-conversations", "version": 1, "conversations": [about]}
    file.write_text(json.dumps(document))
    one = chat()
    one.do(ImportConversations(str(file)))
    one.rows(lambda t: t == ["From a file"])
    one.do(DeleteAll())
    one.rows(lambda t: not t)
    one.do(UndoHistory())
    one.rows(lambda t: t == ["From a file"])
    one.do(UndoHistory())
    one.rows(lambda t: not t)
    one.do(ShowHistoryPart("deleted"))
    one.rows(lambda t: t == ["From a file"])
    one.do(ShowHistoryPart("all"), RedoHistory())
    one.rows(lambda t: t == ["From a file"])
