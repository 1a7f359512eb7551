"""Files of the draft: how they come and go, are counted, cut, sent and brought back by an edit."""

import pytest

from llm_lite.core.attached_text import Attachment, attachment_text, message_text
from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import CountTokens, Ended, Generate
from llm_lite.core.records import replace
from llm_lite.desktop.features.attachments.model import (
    AttachFiles,
    AttachWhole,
    FileRead,
    FitFiles,
    RemoveFile,
    RemoveFiles,
    UnfoldAttachment,
    budget,
    level,
)
from llm_lite.desktop.features.attachments.state import MOST_FILES, TRIES
from llm_lite.desktop.features.chat.model import (
    CancelEdit,
    EditMessage,
    NewChat,
    Regenerate,
    Send,
    SetDraft,
)
from llm_lite.desktop.features.program.act import act, due
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.state import AppState, Counted, Message
from llm_lite.desktop.features.tree.model import SwitchVersion
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.engine.vocabulary import count
from tests.desktop.other_versions import others, with_beside

READY = AppState(model=replace(MODEL, context=1024), executor=EXECUTOR)


def doing(state, *actions):
    for action in actions:
        state, _ = act(action, state, 0.0)
    return state


def settled(state):
    """With all that is asked to be counted counted, a token for four characters."""
    for _ in range(9):
        state, commands = due(state)
        asked = [command for command in commands if isinstance(command, CountTokens)]
        if not asked:
            return state
        state = apply(count(asked[0]), state, 0.0, asked[0])
        state = apply(Ended(), state, 0.0, asked[0])
    raise AssertionError("it is counted again and again")


def with_file(text="words " * 40, name="a.txt", state=READY):
    key = state.files.next_key
    return doing(state, AttachFiles((f"/there/{name}",)), FileRead(key, Attachment(name, text)))


def test_a_file_is_read_counted_and_sent():
    state = doing(READY, AttachFiles(("/there/a.txt",)))
    assert [f.name for f in state.files.files] == ["a.txt"] and not state.files.are_read
    refused = doing(state, Send("What is it?"))
    assert "still being read" in refused.notices[-1].text
    assert (refused.draft, refused.messages) == ("What is it?", ())
    state = doing(state, FileRead(1, Attachment("whatever", "some words")), SetDraft("What?"))
    state = settled(state)
    assert (
        budget(state).counted
        and state.files.files[0].tokens
        == len(attachment_text(Attachment("a.txt", "some words"))) // 4 + 1
    )
    state, commands = act(Send("What?"), state, 0.0)
    sent = next(command for command in commands if isinstance(command, Generate))
    kept = state.messages[0].attachments
    assert sent.messages[-1].content == message_text("What?", kept) != "What?"
    assert kept[0].tokens > 0 and state.messages[0].text == "What?"
    assert state.files.files == () and state.draft == ""


def test_a_count_of_another_draft_is_not_taken_for_that_of_this_one():
    """It could not be counted: what is told is not whole, and nothing is cut by it."""
    state = settled(doing(with_file(), SetDraft("What?")))
    assert budget(state).counted
    unknown = replace(state.files, failures=TRIES)
    other = due(doing(replace(state, files=unknown), SetDraft("What is it?")))[0]
    assert other.files.counting is None and not budget(other).counted
    assert not budget(replace(state, model=replace(MODEL, path="/other.gguf"))).counted


def test_files_alone_can_be_sent():
    state, commands = act(Send(""), settled(with_file()), 0.0)
    assert any(isinstance(command, Generate) for command in commands)
    assert state.messages[0].text == "" and state.messages[0].attachments


def test_the_same_file_twice_is_said():
    state = doing(with_file(), AttachFiles(("/there/a.txt", "/there/b.txt", "/there/b.txt")))
    assert [f.name for f in state.files.files] == ["a.txt", "b.txt"]
    assert "attached already" in state.notices[-1].text
    state = doing(state, AttachFiles(("/elsewhere/a.txt",)))
    again = FileRead(state.files.files[-1].key, Attachment("a.txt", "words " * 40))
    state = doing(state, again)
    assert [f.path for f in state.files.files] == ["/there/a.txt", "/there/b.txt"]
    assert "holds the same text" in state.notices[-1].text


def test_what_cannot_be_read_goes_with_a_sentence():
    state = doing(READY, AttachFiles(("/x/a.bin",)), FileRead(1, None, "is empty"))
    assert state.files.files == () and state.notices[-1].text == "“a.bin” is empty."
    state = doing(READY, AttachFiles(("/x/m.gguf",)), FileRead(1, None))
    assert state.files.files == () and state.notices == (), "a model is opened instead"


def test_more_than_a_message_takes_are_left_out():
    state = doing(READY, AttachFiles(tuple(f"/x/{n}" for n in range(MOST_FILES + 5))))
    assert len(state.files.files) == MOST_FILES and "at most" in state.notices[-1].text


def test_too_much_is_not_sent_and_the_part_that_fits_is():
    state = settled(doing(with_file("line of words\n" * 600), SetDraft("Why?")))
    assert not budget(state).fits
    refused = doing(state, Send("Why?"))
    assert "does not fit" in refused.notices[-1].text and refused.messages == ()
    state, (asked,) = act(FitFiles(), state, 0.0)
    state = settled(apply(count(asked), state, 0.0, asked))
    file = state.files.files[0]
    assert budget(state).fits and file.attached.is_cut
    assert file.attached.whole == len(file.text) == len("line of words\n") * 600
    assert "the first" in attachment_text(file.attached)
    whole = doing(state, AttachWhole(file.key)).files.files[0].attached
    assert whole.text == file.text and not whole.is_cut


def test_small_files_stay_whole_when_a_long_one_is_cut():
    state = settled(with_file("long " * 4000, "b.txt", with_file("short", "a.txt")))
    state, (asked,) = act(FitFiles(), state, 0.0)
    state = settled(apply(count(asked), state, 0.0, asked))
    assert [f.attached.is_cut for f in state.files.files] == [False, True]


@pytest.mark.parametrize(
    ("tokens", "room", "most"),
    [([10, 10], 10, 5), ([2, 100, 100], 102, 50), ([5], 50, 45), ([], 7, 7), ([9], -3, 0)],
)
def test_the_level_to_which_files_are_cut(tokens, room, most):
    assert level(tokens, room) == most


def test_where_something_may_be_forgotten_it_can_be_sent():
    state = settled(with_file("line of words\n" * 600, state=replace(READY, overflow="rolling")))
    assert doing(state, Send("Why?")).messages


def test_another_model_counts_again():
    state = settled(with_file())
    before = state.files.model
    other = replace(state, model=replace(MODEL, path="/models/other.gguf"))
    other, commands = due(other)
    assert commands and other.files.model != before and other.files.files[0].tokens < 0


def test_what_cannot_be_counted_is_not_asked_for_for_ever():
    state, tries = with_file(), 0
    while True:
        state, commands = due(state)
        if not commands:
            break
        tries += 1
        state = apply(Ended("it fails"), state, 0.0, commands[0])
    assert tries == TRIES and "fails" in state.notices[-1].text


def test_the_conversation_before_is_counted_where_the_cache_does_not_hold_it():
    said = (Message("user", "word " * 100), Message("assistant", "word " * 100))
    state = settled(with_file(state=replace(READY, tree=ConversationTree(said))))
    assert budget(state).before == pytest.approx(250, abs=10)
    counted = Counted(state.messages, state.prompt_settings, 77)
    assert budget(settled(replace(state, count=counted))).before == 77


def test_an_edit_brings_the_files_back_and_a_version_keeps_them():
    state = doing(settled(with_file()), Send("What?"))
    state = replace(state, running=None)
    first = state.messages[0].attachments
    edited = doing(state, EditMessage(0))
    assert edited.draft == "What?" and [f.attached for f in edited.files.files] == list(first)
    assert doing(edited, CancelEdit()).files.files == ()
    again = doing(settled(edited), Send("Why?"))
    assert again.messages[0].attachments[0].text == first[0].text
    assert others(again, 0)[0].attachments == first


def test_the_draft_s_own_files_wait_while_a_message_is_edited():
    said = (Message("user", "a", attachments=(Attachment("n.md", "t"),)), Message("assistant", "b"))
    state = with_file(state=replace(READY, tree=ConversationTree(said)))
    edited = doing(state, EditMessage(0), EditMessage(1), EditMessage(0))
    assert [f.name for f in edited.files.files] == ["n.md"]
    assert doing(edited, CancelEdit()).files.files == state.files.files
    sent = doing(settled(edited), Send("another"))
    assert [f.name for f in sent.files.files] == ["a.txt"]
    assert [a.name for a in sent.messages[0].attachments] == ["n.md"]


SAID = (
    Message("user", "a"),
    Message("assistant", "b"),
    Message("user", "e"),
)
VERSIONS = with_beside(SAID, 0, Message("user", "c"))
LEAVES = {
    "given up": (CancelEdit(),),
    "an answer is sent": (EditMessage(1), Send("B")),
    "a question is sent": (Send("A"),),
    "a new chat": (NewChat(),),
    "a version without it": (SwitchVersion(0, 0),),
}


@pytest.mark.parametrize("leaves", LEAVES)
def test_an_edit_leaves_the_draft_of_before_as_it_was(leaves):
    state = doing(
        with_file(state=replace(READY, tree=VERSIONS)),
        SetDraft("half a thought"),
    )
    edited = doing(state, EditMessage(2))
    assert (edited.draft, edited.files.files) == ("e", ())
    ended = doing(edited, *LEAVES[leaves])
    assert (ended.editing, ended.draft, ended.aside) == (None, "half a thought", "")
    kept = [(file.path, file.attached) for file in ended.files.files]
    assert kept == [(file.path, file.attached) for file in state.files.files]


def test_an_edit_goes_on_where_its_message_stays():
    state = doing(
        replace(READY, tree=VERSIONS),
        SetDraft("x"),
        EditMessage(0),
    )
    again = doing(state, Regenerate(1))
    assert (again.editing, again.draft, again.aside) == (0, "a", "x")


def test_running_again_tells_the_kept_text():
    state = replace(doing(settled(with_file("kept words")), Send("What?")), running=None)
    state = replace(
        state, tree=ConversationTree((state.messages[0], Message("assistant", "This.")))
    )
    _, commands = act(Regenerate(), state, 0.0)
    asked = next(command for command in commands if isinstance(command, Generate))
    assert "kept words" in asked.messages[-1].content


def test_files_do_not_go_with_an_answer():
    state = replace(READY, tree=ConversationTree((Message("user", "a"), Message("assistant", "b"))))
    state = doing(state, EditMessage(1), AttachFiles(("/x/a.txt",)))
    assert state.files.files == () and "not with an answer" in state.notices[-1].text


def test_they_are_removed_one_or_all():
    state = with_file("b", "b.txt", with_file("a"))
    assert [f.name for f in doing(state, RemoveFile(1)).files.files] == ["b.txt"]
    gone = doing(state, RemoveFiles())
    assert gone.files.files == () and gone.files.next_key == state.files.next_key
    assert doing(gone, FileRead(1, Attachment("a.txt", "late"))).files.files == ()


def test_unfolding_is_no_change_of_what_was_said():
    state = replace(
        READY, tree=ConversationTree((Message("user", "a", attachments=(Attachment("n", "t"),)),))
    )
    shown = doing(state, UnfoldAttachment(0, 0))
    assert shown.messages[0].unfolded == 0 and shown.messages[0].id == state.messages[0].id
    assert doing(shown, UnfoldAttachment(7, 0)) is shown
