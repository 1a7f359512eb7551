"""What is said is kept: as a tree, with all that is known of an answer, seen before it is saved."""

import sqlite3
import stat
import threading
import time

import pytest

from llm_lite.core.history import (
    AnswerEnd,
    Attachment,
    ConversationTree,
    History,
    HistoryRefused,
    HistorySaved,
    Journal,
    history_path,
)
from llm_lite.core.history.database.changes import AddMessage
from llm_lite.core.history.ids import new_id
from llm_lite.core.records import replace
from tests.children import PATIENCE
from tests.core.history.talks import END, RUN, add_talk, told


def texts(history: History, talk: int) -> list[str]:
    conversation = history.conversation(talk)
    return [message.text for message in ConversationTree.of(conversation).path]


def test_values_that_are_none_stand_in_nobodys_way(history):
    talk = add_talk(history, "One?")
    history.set_pinned(talk, object())
    history.set_system_prompt(talk, 5)
    history.delete([object()])
    history.finish_answer(history.begin_answer(talk, None, RUN), "", "", ("token",))
    history.set_title(talk, "After")
    assert history.flush() and history.summary(talk).title == "After"


@pytest.mark.parametrize("saved", [False, True])
def test_a_message_keeps_all_that_it_was_given(history, saved):
    talk = history.begin(system_prompt="Be brief.").id
    kept = (Attachment("a.txt", "words", 2), Attachment("b.txt"))
    asked = history.add_message(talk, None, "Why?", attachments=kept)
    answer = history.begin_answer(talk, asked.id, RUN)
    history.finish_answer(answer, "So.", "hm", (1, 0xFFFF_FFFF, 0), END)
    if saved:
        assert history.flush()
    whole = history.conversation(talk)
    assert whole.summary.system_prompt == "Be brief."
    first, second = whole.messages
    assert first == replace(asked, selected=answer.id)
    assert second == replace(
        answer, text="So.", thought="hm", tokens=(1, 0xFFFF_FFFF, 0), finished=True, end=END
    )
    assert second.run == RUN


def test_what_is_read_before_it_is_saved_is_what_is_saved(history, reopened):
    talk = add_talk(history, "One?", "1", "Two?", "2")
    other = add_talk(history, "Three?")
    history.set_title(talk, "Numbers")
    history.set_pinned(other, True)
    before = history.page(), history.conversation(talk), history.conversation(other)
    again = reopened(history)
    assert (again.page(), again.conversation(talk), again.conversation(other)) == before
    assert [summary.id for summary in before[0].conversations] == [other, talk]


def test_editing_and_regenerating_make_versions_and_lose_nothing(history):
    talk = add_talk(history, "One?", "1", "Two?", "2")
    first, one, two, answer = history.conversation(talk).messages
    again = history.begin_answer(talk, two.id, RUN)
    history.finish_answer(again, "II")
    assert texts(history, talk) == ["One?", "1", "Two?", "II"]
    edited = history.edit(one, "one")
    assert (edited.role, edited.based_on) == ("assistant", one.id)
    assert texts(history, talk) == ["One?", "one"]
    begun = history.edit(first, "Zero?")
    assert texts(history, talk) == ["Zero?"]
    history.select(talk, None, first.id)
    assert texts(history, talk) == ["One?", "one"]
    history.select(talk, first.id, one.id)
    assert texts(history, talk) == ["One?", "1", "Two?", "II"]  # as it was left
    history.select(talk, two.id, answer.id)
    tree = ConversationTree.of(history.conversation(talk))
    assert [tree.find(one).text for one in tree.versions(3)] == ["2", "II"]
    assert tree.versions(0) == (first.id, begun.id)
    assert tree.leaf == answer.id
    assert [message.text for message in tree.path_to(again.id)] == ["One?", "1", "Two?", "II"]
    history.show(tree.path_to(edited.id))
    assert texts(history, talk) == ["One?", "one"]
    history.show(tree.path_to(answer.id))


def test_a_fork_begins_with_the_tokens_of_another_version(history):
    talk = add_talk(history, "One?")
    question = history.conversation(talk).messages[0]
    answer = history.begin_answer(talk, question.id, RUN)
    history.finish_answer(answer, "abc", "", (1, 2, 3))
    fork = history.begin_answer(talk, question.id, RUN, fork_of=answer, text="ab", tokens=(1, 2))
    history.write_answer(fork, "abX", "", (1, 2, 9))
    found = {message.id: message for message in history.conversation(talk).messages}
    assert (found[fork.id].based_on, found[fork.id].kept_tokens) == (answer.id, 2)
    assert found[fork.id].tokens == (1, 2, 9) and not found[fork.id].finished
    assert found[answer.id].text == "abc"


def test_a_stopped_answer_can_be_continued_and_a_finished_one_not_changed(history):
    talk = add_talk(history, "One?", "1")
    answer = history.conversation(talk).messages[1]
    history.write_answer(answer, "overwritten?")
    assert history.flush() and texts(history, talk)[-1] == "1"
    history.continue_answer(answer)
    history.write_answer(answer, "1 and")
    assert not history.conversation(talk).messages[1].finished
    history.finish_answer(answer, "1 and more", "", (), AnswerEnd("end"))
    assert history.flush()
    kept = history.conversation(talk).messages[1]
    assert (kept.text, kept.finished, kept.end) == ("1 and more", True, AnswerEnd("end"))
    assert [found.message for found in history.search("and more").found] == [answer.id]


def test_words_come_to_the_file_while_an_answer_is_written(history):
    talk = add_talk(history, "One?")
    answer = history.begin_answer(talk, history.conversation(talk).messages[0].id, RUN)
    assert history.flush()
    history.poll()
    history.write_answer(answer, "some words")
    told(history, HistorySaved)
    other = History(history.path)
    assert other.wait_until_open()
    kept = other.conversation(talk).messages[-1]
    other.close()
    assert (kept.text, kept.finished) == ("some words", False)


def test_only_the_newest_words_wait(history):
    talk = add_talk(history, "One?")
    answers = [history.begin_answer(talk, None, RUN) for _ in range(2)]
    assert history.flush()
    for number in range(1000):
        history.write_answer(answers[number % 2], "x" * number)
    assert history.unsaved <= 4  # of either, one that is being saved and one that waits
    for number, answer in enumerate(answers):
        history.finish_answer(answer, f"end {number}")
    assert history.flush()
    assert {"end 0", "end 1"} < {message.text for message in history.conversation(talk).messages}


def test_pages_follow_each_other_and_see_what_waits(history, monkeypatch):
    talks = [add_talk(history, f"Question {number}?") for number in range(25)]
    assert history.flush()
    history.set_pinned(talks[3], True)
    Journal(history).archive(talks[5])
    history.delete([talks[7]])
    expected = [talks[3], *(t for t in reversed(talks) if t not in (talks[3], talks[5], talks[7]))]
    for saved in (False, True):
        if saved:
            assert history.flush()
        found, cursor = [], None
        while True:
            page = history.page(cursor, limit=4)
            found += [summary.id for summary in page.conversations]
            cursor = page.next
            if cursor is None:
                break
        assert found == expected
    assert [s.id for s in history.page(archived=True).conversations] == [talks[5]]
    assert [s.id for s in history.deleted()] == [talks[7]]


def test_deleted_conversations_return_until_they_are_purged(history):
    talks = [add_talk(history, f"Question {number}?", "Yes") for number in range(12)]
    assert set(history.delete_all()) == set(talks)
    assert history.page().conversations == ()
    history.restore(talks[:2])
    assert history.purge(deleted_before=0) == 0
    assert history.purge() == 10
    assert history.flush()
    assert {s.id for s in history.page().conversations} == set(talks[:2])
    assert history.deleted() == () and history.conversation(talks[5]) is None
    assert {found.conversation for found in history.search("Question").found} == set(talks[:2])
    assert history.check() == ""


def test_nothing_is_left_of_what_is_purged(history):
    kept = add_talk(history, "These words stay", "word " * 50)
    talks = [add_talk(history, f"The secret Zqxjkv{n} " * 20, "word " * 500) for n in range(20)]
    assert history.flush()
    history.delete(talks)
    assert history.flush() and b"Zqxjkv" in content(history) and has_word(history, "zqx")
    history.purge()
    assert history.flush()
    until = time.monotonic() + PATIENCE
    while history._writer._sweep is not None and time.monotonic() < until:
        time.sleep(0.01)
    assert b"zqxjkv" not in content(history).lower()
    with history._reading() as connection:
        (parts,) = connection.execute(
            "SELECT count(DISTINCT segid) FROM message_index_idx"
        ).fetchone()
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    assert (parts, free, has_word(history, "zqx")) == (1, 0, False)
    assert history.search("words stay").found[0].conversation == kept
    assert history.check() == ""


def has_word(history: History, trigram: str) -> bool:
    """Whether the index holds it."""
    other = sqlite3.connect(history.path)
    other.execute("CREATE VIRTUAL TABLE temp.words USING fts5vocab (main, message_index, row)")
    found = other.execute("SELECT 1 FROM temp.words WHERE term = ?", (trigram,)).fetchone()
    other.close()
    return found is not None


def content(history: History) -> bytes:
    """All that the disk holds."""
    return b"".join(path.read_bytes() for path in history.path.parent.iterdir())


def test_a_long_conversation_can_be_purged(history):
    """Deeper than SQLite lets foreign keys recurse."""
    talk = add_talk(history, *("word",) * 2400)
    history.delete([talk])
    history.purge()
    assert history.flush()
    assert history.conversation(talk) is None and history.check() == ""


def test_titles_come_from_the_first_message_until_a_person_gives_one(history):
    talk = history.begin().id
    first = history.add_message(talk, None, "# What is **this**? And that?")
    assert history.summary(talk).title == "What is this?"
    history.add_message(talk, first.id, "Something else.")
    history.edit(first, "What was it?")
    assert history.summary(talk).title == "What was it?"
    history.set_title(talk, "Mine")
    history.edit(first, "What will it be?")
    history.set_title(talk, "A model's", "model")
    assert (history.summary(talk).title, history.summary(talk).title_source) == ("Mine", "person")
    other = add_talk(history, "One?")
    history.set_title(other, "A model's", "model")
    assert history.summary(other).title == "A model's"


def test_a_change_without_its_conversation_is_told(history):
    talk = add_talk(history, "One?")
    question = history.conversation(talk).messages[0]
    history.delete([talk])
    history.purge()
    assert history.flush()
    history.add_message(talk, question.id, "Is anybody there?")
    other = add_talk(history, "Still here?")
    assert history.flush()
    assert told(history, HistoryRefused).conversations == (talk,)
    assert history.conversation(other) is not None


def test_a_message_must_lie_in_the_conversation_of_its_parent(history):
    one, two = add_talk(history, "One?"), add_talk(history, "Two?")
    parent = history.conversation(one).messages[0]
    history.add_message(two, parent.id, "Astray")
    assert history.flush()
    assert told(history, HistoryRefused).conversations == (two,)


def test_text_that_no_encoder_takes_is_kept_as_far_as_it_is_text(history):
    talk = add_talk(history, "half \ud83d pair, null \x00, whole \U0001f600")
    assert history.flush()
    assert texts(history, talk) == ["half � pair, null \x00, whole \U0001f600"]


def test_a_token_that_is_none_is_refused_and_the_next_change_saved(history):
    talk = add_talk(history, "One?")
    answer = history.begin_answer(talk, None, RUN)
    history.finish_answer(answer, "?", "", (1 << 40,))
    history.set_title(talk, "After")
    assert history.flush()
    told(history, HistoryRefused)
    assert history.summary(talk).title == "After"


def test_what_was_said_comes_back_with_its_tokens(history):
    talk = add_talk(history, "One?", "1")
    path = ConversationTree.of(history.conversation(talk)).path
    assert [(m.role, m.text, m.tokens) for m in path] == [
        ("user", "One?", ()),
        ("assistant", "1", (1, 2, 3)),
    ]


def test_the_file_is_for_its_owner_alone(history):
    add_talk(history, "One?")
    assert history.flush()
    for path in history.path.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_ids_ascend_and_never_come_twice():
    found: list[list[int]] = [[] for _ in range(4)]
    threads = [
        threading.Thread(target=lambda into=into: into.extend(new_id() for _ in range(5000)))
        for into in found
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(ids == sorted(ids) for ids in found)
    assert len({number for ids in found for number in ids}) == 20000
    ahead = found[0][-1] + (5 << 32)  # another process' clock is ahead
    assert ahead < new_id(ahead) < 1 << 63


def test_changes_are_pure_data(history):
    """What waits can be looked at, and applied twice without harm."""
    talk = add_talk(history, "One?")
    assert history.flush()
    message = history.conversation(talk).messages[0]
    history.submit(AddMessage(message))
    assert history.flush()
    assert len(history.conversation(talk).messages) == 1


def test_readings_see_one_state_while_it_is_saved(history):
    """Each reading falls somewhere into the saving of what it reads."""
    for number in range(60):
        talk = add_talk(history, "One?", "1")
        first = history.conversation(talk).messages[0]
        history.select(talk, None, first.id)
        history.set_title(talk, "Mine")
        again = history.begin_answer(talk, first.id, RUN)
        history.finish_answer(again, "I")
        for wait in range(3):
            time.sleep(0.0005 * ((number + wait) % 8))
            whole = history.conversation(talk)
            assert [m.id for m in ConversationTree.of(whole).path] == [first.id, again.id]
            assert [m.text for m in whole.messages] == ["One?", "1", "I"]
            assert all(message.finished for message in whole.messages)
            assert history.summary(talk).title == "Mine"
            assert history.page().conversations[0] == whole.summary


def test_it_lies_with_the_data_of_its_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path in history_path().parents and history_path().name == "history.db"
