"""Undo and redo bring back what was there, whatever it was."""

from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.core.history import History, Journal
from tests.core.history.talks import add_talk


def test_each_thing_is_taken_back_and_done_again(history):
    talk = add_talk(history, "One?", "1")
    journal = Journal(history)
    steps = {
        "Rename": lambda: journal.rename(talk, "Numbers"),
        "Pin": lambda: journal.pin(talk),
        "Archive": lambda: journal.archive(talk),
        "Unpin": lambda: journal.pin(talk, False),
        "Delete": lambda: journal.delete([talk]),
    }
    states = [history.conversation(talk)]
    for label, step in steps.items():
        step()
        assert journal.newest.label == label
        states.append(history.conversation(talk))
    assert len(set(map(repr, states))) == len(states)
    for state in reversed(states[:-1]):
        journal.undo()
        assert history.conversation(talk) == state
    assert journal.undo() is None and journal.newest is None
    for label, state in zip(steps, states[1:], strict=True):
        assert journal.redo().label == label
        assert history.conversation(talk) == state
    assert journal.redo() is None
    assert history.flush() and history.conversation(talk) == states[-1]


def test_delete_all_and_restore(history):
    talks = [add_talk(history, f"{number}?") for number in range(5)]
    history.delete(talks[:1])
    assert history.flush()
    journal = Journal(history)
    before = history.page(), history.deleted()
    assert journal.delete_all() == 4
    assert history.page().conversations == () and len(history.deleted()) == 5
    journal.undo()
    assert (history.page(), history.deleted()) == before  # the one stays deleted
    journal.restore(talks)
    assert len(history.page().conversations) == 5
    journal.undo()
    assert (history.page(), history.deleted()) == before


def test_what_changes_nothing_is_no_entry(history):
    talk = add_talk(history, "One?")
    journal = Journal(history)
    journal.rename(talk, "One?")
    journal.pin(talk, False)
    journal.restore([talk])
    journal.delete([12345])
    journal.rename(12345, "Nobody")
    assert journal.undo() is None
    journal.rename(talk, "New")
    journal.undo()
    journal.pin(talk)
    assert journal.redo() is None  # what was undone is gone once something else is done
    journal.delete([talk])
    assert history.purge() == 1
    journal.forget([talk])
    assert journal.undo() is None


def test_a_renamed_conversation_has_its_source_back(history):
    talk = add_talk(history, "What is it?")
    journal = Journal(history)
    journal.rename(talk, "Mine")
    assert history.summary(talk).title_source == "person"
    journal.undo()
    assert (history.summary(talk).title, history.summary(talk).title_source) == (
        "What is it?",
        "message",
    )


@settings(max_examples=10)  # each has a file of its own
@given(st.lists(st.tuples(st.sampled_from("rpadu"), st.integers(0, 2), st.booleans()), max_size=12))
def test_all_of_it_can_be_taken_back(tmp_path_factory, steps):
    history = History(tmp_path_factory.mktemp("journal") / "history.db")
    talks = [add_talk(history, f"{number}?") for number in range(3)]
    journal = Journal(history)

    def state() -> list[object]:
        return [history.summary(talk) for talk in talks]

    before = state()
    for what, which, value in steps:
        match what:
            case "r":
                journal.rename(talks[which], f"name {value}")
            case "p":
                journal.pin(talks[which], value)
            case "a":
                journal.archive(talks[which], value)
            case "d":
                journal.delete([talks[which]]) if value else journal.restore([talks[which]])
            case "u":
                journal.undo() if value else journal.redo()
    after = state()
    while journal.undo() is not None:
        pass
    assert state() == before
    while journal.redo() is not None and state() != after:
        pass
    history.close()
