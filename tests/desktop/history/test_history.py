"""What is said in the window is kept, and comes back as it was."""

import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llm_lite.core.attached_text import ConversationExtras
from llm_lite.core.handles import Report
from llm_lite.core.history import (
    AnswerEnd,
    ConversationSummary,
    ConversationTree,
    History,
    StoredConversation,
    StoredMessage,
    history_path,
)
from llm_lite.core.history.database import writer
from llm_lite.core.history.exchange.importing import read_conversations
from llm_lite.core.messages import ExecutorChanged, LoadModel, TokenDecoded
from llm_lite.core.records import replace
from llm_lite.desktop.app.program import Program
from llm_lite.desktop.app.settings import history_file
from llm_lite.desktop.features.chat.model import (
    ContinueAnswer,
    EditMessage,
    NewChat,
    Regenerate,
    Send,
    SetDraft,
    SetSystemPrompt,
    StopAnswer,
)
from llm_lite.desktop.features.history.host import HistoryHost
from llm_lite.desktop.features.history.host_recorder import in_chat
from llm_lite.desktop.features.history.model import (
    ArchiveConversation,
    ConversationRead,
    DeleteAll,
    DeleteConversation,
    ExportConversation,
    ImportConversations,
    OpenConversation,
    PinConversation,
    RedoHistory,
    RenameConversation,
    SearchHistory,
    ShowHistoryPart,
    UndoHistory,
)
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.state import SYSTEM
from llm_lite.desktop.features.tree.model import ContinueFrom, SwitchVersion
from tests.children import PATIENCE
from tests.desktop.engine.answers import ANSWER
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.engine.vocabulary import OTHER_ID


class Chat:
    """The program without its interface: an engine that answers, and a history in a file."""

    def __init__(self, path, delay=0.0):
        self.path = path
        self.program = Program(AppState(system_prompt="Be brief."), interface=None)
        self.program.use("history", HistoryHost(path, lambda: None))
        self.engine = ScriptedEngine(delay)
        self.program.start(self.engine)
        self.engine.submit(LoadModel(None))
        self.wait(lambda s: s.model is not None and s.history.read)

    @property
    def state(self):
        return self.program.state

    @property
    def history(self):
        return self.program.history.history

    def wait(self, until):
        end = time.monotonic() + PATIENCE
        while not until(self.state):
            assert time.monotonic() < end, self.state.history
            self.program.update()
            time.sleep(0.001)

    def do(self, *actions):
        for action in actions:
            self.program.do(action)
            self.wait(lambda s: not s.busy)
        return self.state

    def open(self, number, message=None):
        self.program.do(OpenConversation(number, message))
        self.wait(lambda s: s.history.opening is None)
        return self.state

    def rows(self, until):
        self.wait(lambda s: until([row.title for row in s.history.rows]))
        return self.state.history.rows

    def stored(self):
        return ConversationTree.of(self.history.conversation(self.state.history.open))

    def close(self):
        self.engine.close()
        self.program.history.end()
        assert self.program.history.finish(PATIENCE)


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


def shape(messages):
    """What is told, without ids."""
    return [(m.role, m.text, len(m.tokens), m.stop_reason) for m in messages]


def test_a_conversation_is_found_again_as_it_was(chat):
    one = chat()
    one.do(Send("Why is the sky blue?"), Send("And at night?"))
    before, number = one.state, one.state.history.open
    one = chat()
    assert one.state.messages == ()
    (row,) = one.rows(bool)
    assert (row.id, row.title) == (number, "Why is the sky blue?")
    one.do(SetSystemPrompt("Another."))
    state = one.open(number)
    assert shape(state.messages) == shape(before.messages)
    assert [m.id for m in state.tree] == [m.id for m in before.tree]
    assert state.tree.places == before.tree.places
    assert state.system_prompt == "Be brief."
    last, told = before.messages[-1], state.messages[-1]
    assert (told.written, told.sampling, told.stats) == (last.written, last.sampling, last.stats)
    assert told.as_chat() == last.as_chat()
    one.do(Send("Go on."))
    assert len(one.stored().path) == 6
    assert [m.run.model.name for m in one.stored().path[1::2]] == [last.written.model.name] * 3
    one.do(NewChat())
    assert one.state.system_prompt == "Another."
    assert one.state.history.open is None


def test_nothing_that_was_said_is_lost_by_edits_and_other_answers(chat):
    one = chat()
    one.do(Send("First"), Send("Second"))
    one.do(EditMessage(0), Send("First, again"), Send("Third"))
    assert [m.text for m in one.state.messages][::2] == ["First, again", "Third"]
    one.do(SwitchVersion(0, 0))
    assert [m.text for m in one.state.messages][::2] == ["First", "Second"]
    one.do(Regenerate(1))
    assert len(one.state.messages) == 2
    one.do(EditMessage(1), Send("What I make of it."))
    assert one.state.messages[1].edited and one.state.tree.version(1) == 2
    one.do(SwitchVersion(1, 0), Regenerate(3), Send("Fourth"))
    before, number = one.state.messages, one.state.history.open
    one = chat()
    assert shape(one.open(number).messages) == shape(before)
    one.do(SwitchVersion(1, 2))
    assert one.state.messages[1].text == "What I make of it."
    one.do(SwitchVersion(0, 1))
    assert [m.text for m in one.state.messages][::2] == ["First, again", "Third"]
    before = one.state.messages
    one = chat()
    assert shape(one.open(number).messages) == shape(before)


def test_a_fork_from_a_token_says_where_it_came_from(chat):
    one = chat()
    one.do(Send("Why?"))
    choice = one.state.messages[1].tokens[3].alternatives[1]
    one.do(ContinueFrom(1, 3, choice))
    fork, (other, _) = one.stored().path[-1], one.stored().versions(1)
    other = one.stored().find(other)
    assert (fork.based_on, fork.kept_tokens) == (other.id, 3)
    assert fork.tokens[:4] == (*other.tokens[:3], OTHER_ID)


def test_an_answer_is_stopped_and_continued(chat):
    one = chat(delay=0.002)
    one.program.do(Send("Why?"))
    one.wait(lambda s: len(s.messages[-1].tokens) > 5)
    one.do(StopAnswer())
    said = one.state.messages[-1].text
    number = one.state.history.open
    one = chat()
    assert one.open(number).messages[-1].text == said
    assert one.state.messages[-1].stop_reason == "stopped"
    one.do(ContinueAnswer())
    assert one.state.messages[-1].text.startswith(said)
    assert len(one.state.messages[-1].text) > len(said)
    (_, answer) = one.stored().path
    assert (answer.text, answer.finished) == (one.state.messages[-1].text, True)


def test_what_an_answer_says_so_far_is_saved_while_it_is_written(chat):
    one = chat(delay=0.02)
    one.program.do(Send("Why?"))
    one.wait(lambda s: len(s.messages[-1].tokens) > 5)
    other = History(one.path)
    assert other.wait_until_open()
    end = time.monotonic() + PATIENCE
    while not (found := other.conversation(one.state.history.open)) or not found.messages[-1].text:
        assert time.monotonic() < end
        one.program.update()
        time.sleep(0.01)
    assert ANSWER.startswith(found.messages[-1].text)
    assert not found.messages[-1].finished
    other.close()


def test_another_conversation_ends_the_answer_and_keeps_what_it_said(chat):
    one = chat(delay=0.002)
    one.do(Send("First"))
    first = one.state.history.open
    one.do(NewChat())
    one.program.do(Send("Second"))
    one.wait(lambda s: s.messages and len(s.messages[-1].tokens) > 5)
    second, said = one.state.history.open, one.state.messages[-1].text
    assert one.open(first).messages[0].text == "First"
    assert not one.state.busy
    answer = one.open(second).messages[-1]
    assert answer.text.startswith(said) and answer.stop_reason == "stopped"


def test_tokens_that_come_together_with_another_conversation_are_kept(chat, monkeypatch):
    """The events of an answer are read before a host's action leaves it, in the same update."""
    one = chat(delay=0.002)
    one.program.do(Send("First"))
    one.wait(lambda s: len(s.messages[-1].tokens) > 2 and s.history.open)
    number, before = one.state.history.open, len(one.state.messages[-1].tokens)
    host, reports = one.program.history, list[Report]()
    end = time.monotonic() + PATIENCE
    while not any(isinstance(report.event, TokenDecoded) for report in reports):
        assert time.monotonic() < end
        reports += one.engine.poll()
    monkeypatch.setattr(one.engine, "poll", lambda: [*reports])
    monkeypatch.setattr(host, "poll", lambda state: [NewChat()])
    one.program.update()
    monkeypatch.undo()
    assert one.state.messages == () and one.state.history.open is None
    answer = one.open(number).messages[-1]
    assert len(answer.tokens) > before and answer.stop_reason == "stopped"


def test_a_message_that_was_found_is_shown_with_its_version(chat):
    one = chat()
    one.do(Send("about sparrows"), EditMessage(0), Send("about eagles"), NewChat())
    one.history.flush()
    one.program.do(SearchHistory("sparrows"))
    one.wait(lambda s: s.history.found_for == "sparrows")
    hits = [found for found in one.state.history.found if found.message is not None]
    assert hits and any(f.snippet[a:b] == "sparrows" for f in hits for a, b in f.marks)
    state = one.open(hits[0].conversation, hits[0].message)
    assert state.messages[0].text == "about sparrows"
    assert state.history.reveal == state.messages[0].id
    one.program.do(SearchHistory(""))
    assert one.state.history.found == ()


def test_what_is_typed_stays_where_a_message_of_the_same_conversation_is_shown(chat):
    one = chat()
    one.do(Send("about sparrows"), EditMessage(0), Send("about eagles"))
    number, sparrows = one.state.history.open, min(message.id for message in one.state.tree)
    one.do(
        SetDraft("and"), SetSystemPrompt("Be kind.")
    )  # written at once, the next not before 0.25 s
    one.program.do(SetDraft("and owls"))  # is not written yet: the last draft was a moment ago
    state = one.open(number, sparrows)
    assert state.messages[0].text == "about sparrows"
    assert (state.draft, state.system_prompt) == ("and owls", "Be kind.")


def test_a_reading_that_was_overtaken_by_another_brings_no_older_draft(chat):
    one = chat()
    one.do(Send("Mice"))
    mice, host = one.state.history.open, one.program.history
    one.do(NewChat(), Send("Owls"), NewChat())
    go_on, was_read = threading.Event(), threading.Event()
    host.do(OpenConversation(mice), one.state)
    host._submit(lambda: (was_read.set(), go_on.wait(PATIENCE), [])[2])
    assert was_read.wait(PATIENCE)  # and waits to be taken
    host.history.set_extras(mice, ConversationExtras(draft="typed since"), ConversationExtras())
    host.do(OpenConversation(mice), one.state)
    assert [a for a in host.poll(one.state) if isinstance(a, ConversationRead)] == []
    go_on.set()
    found, end = [], time.monotonic() + PATIENCE
    while not found and time.monotonic() < end:
        found = [a for a in host.poll(one.state) if isinstance(a, ConversationRead)]
    assert [read.extras.draft for read in found] == ["typed since"]


def test_the_list_follows_what_is_done_and_taken_back(chat):
    one = chat()
    for words in ("One", "Two", "Three"):
        one.do(NewChat(), Send(words))
    assert one.rows(lambda t: len(t) == 3)[0].title == "Three"
    third, second, first = (row.id for row in one.state.history.rows)
    one.do(PinConversation(first, True))
    one.rows(lambda t: t == ["One", "Three", "Two"])
    one.do(RenameConversation(second, "  Another\nname "))
    one.rows(lambda t: t == ["One", "Three", "Another name"])
    one.do(UndoHistory())
    one.rows(lambda t: t == ["One", "Three", "Two"])
    one.do(RedoHistory(), DeleteConversation(third))
    assert one.state.messages == ()
    one.rows(lambda t: t == ["One", "Another name"])
    assert one.state.notices[-1].undo
    one.do(ArchiveConversation(second, True))
    one.rows(lambda t: t == ["One"])
    one.do(ShowHistoryPart("archived"))
    one.rows(lambda t: t == ["Another name"])
    one.do(ShowHistoryPart("deleted"))
    one.rows(lambda t: t == ["Three"])
    one.do(ShowHistoryPart("all"), DeleteAll())
    one.wait(lambda s: s.history.read and not s.history.rows)
    one.do(UndoHistory())
    one.rows(lambda t: t == ["One"])


def test_another_window_that_writes_to_the_same_conversation_is_told_of(chat, monkeypatch):
    monkeypatch.setattr(writer, "LOOK", 0.02)
    one = chat()
    one.do(Send("One?"))
    number = one.state.history.open
    assert one.history.flush()
    other = History(one.path)
    assert other.wait_until_open()
    other.set_title(number, "By another")
    assert other.flush()
    one.rows(lambda titles: titles == ["By another"])
    assert not any("Another window" in notice.text for notice in one.state.notices)
    for text in ("From elsewhere", "And more"):
        other.add_message(number, one.state.messages[-1].id, text)
        assert other.flush()
        one.wait(lambda s: any("Another window" in notice.text for notice in s.notices))
    assert other.close()
    assert sum("Another window" in notice.text for notice in one.state.notices) == 1


def test_a_switch_of_weights_within_an_answer_is_kept(chat, tmp_path):
    one = chat(delay=0.002)
    one.program.do(Send("Why is the sky blue?"))
    one.wait(lambda s: len(s.messages[-1].tokens) > 2)
    one.program.state = apply(
        ExecutorChanged(replace(EXECUTOR, mode="int4"), MODEL), one.state, time.monotonic()
    )
    one.wait(lambda s: not s.busy)
    written, number = one.state.messages[1].written, one.state.history.open
    assert [switch.mode for switch in written.switches] == ["int4"]
    path = tmp_path / "kept.json"
    one.do(ExportConversation(number, "json", str(path)))
    one.wait(lambda s: path.exists())
    one = chat()
    assert one.open(number).messages[1].written.switches == written.switches
    (again,) = read_conversations(path).conversations
    assert again.messages[1].run.switches == written.switches


def test_a_conversation_leaves_and_comes_back_as_a_file(chat, tmp_path):
    one = chat()
    one.do(Send("Keep this."))
    path = tmp_path / "out" / "kept.json"
    one.do(ExportConversation(one.state.history.open, "json", str(path)))
    one.wait(lambda s: path.exists())
    one.do(ImportConversations(str(path)))
    one.rows(lambda t: t == ["Keep this", "Keep this"] or t == ["Keep this."] * 2)
    one.do(ImportConversations(str(tmp_path / "none.json")))
    one.wait(lambda s: any("none.json" in n.text for n in s.notices))


def test_the_file_is_where_the_history_says():
    assert history_file() == history_path()


def test_messages_that_did_not_change_cost_the_history_nothing(chat, monkeypatch):
    one = chat()
    one.do(Send("Why?"))
    calls = []
    monkeypatch.setattr(one.history, "submit", calls.append)
    for _ in range(20):
        one.program.update()
    assert calls == []


def conversation_of(parents, chosen):
    """A tree: message i + 1 stands behind message `parents[i]`, 0 being none of them."""
    children = {}
    for number, parent in enumerate(parents, 1):
        children.setdefault(parent, []).append(number)
    picked = {p: c[k % len(c)] for (p, c), k in zip(sorted(children.items()), chosen, strict=False)}
    messages = tuple(
        StoredMessage(
            number,
            1,
            parent or None,
            "user" if number % 2 else "assistant",
            f"said {number}",
            selected=picked.get(number),
            end=None if number % 2 else AnswerEnd("end"),
        )
        for number, parent in enumerate(parents, 1)
    )
    return StoredConversation(ConversationSummary(1, selected=picked.get(0)), messages)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_every_message_of_any_tree_is_in_the_chat_once(data):
    count = data.draw(st.integers(1, 25))
    parents = [data.draw(st.integers(0, number)) for number in range(count)]
    chosen = data.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    stored = conversation_of(parents, chosen)
    tree = in_chat(stored)
    assert [m.id for m in tree.path] == [m.id for m in ConversationTree.of(stored).path]
    assert sorted(m.id for m in tree) == [m.id for m in stored.messages]
    for message in stored.messages:
        there = tree.showing(message.id)
        beside = [m.id for m in stored.messages if m.parent == message.parent]
        index = there.index(message.id)
        assert list(there.versions(index)) == beside
        assert there.version(index) == beside.index(message.id)
        assert sorted(m.id for m in there) == [m.id for m in stored.messages]
        assert there.showing(tree.leaf).path == tree.path, "as it was left"


@pytest.mark.parametrize("branching", [False, True])
def test_a_long_or_deep_tree_is_opened_without_recursion(branching):
    count = 4000
    parents = list(range(count))
    if branching:  # two messages beside each other, the second with all that follows
        parents = [max(0, number - 1 - number % 2) for number in range(count)]
    stored = conversation_of(parents, [0] * count)
    assert in_chat(stored).count == count


def test_what_a_tool_or_a_system_said_keeps_its_role(chat):
    one = chat()
    talk = one.history.begin(title="Imported")
    said = [("system", "Use tools."), ("user", "How warm?"), ("tool", "42 degrees")]
    parent = None
    for role, text in said:
        parent = one.history.add_message(talk.id, parent, text, role=role).id
    state = one.open(talk.id)
    assert [(m.role, m.text) for m in state.messages] == said
    one.do(SetSystemPrompt(""), EditMessage(2), Send("43 degrees"))
    assert [(m.role, m.text) for m in one.stored().path[:3]] == [
        *said[:2],
        ("tool", "43 degrees"),
    ]
    told = one.engine.commands[-1].messages
    assert [m.role for m in told] == ["system", "user", "tool"]
    assert 0 in one.state.owners and SYSTEM not in one.state.owners  # it is a message, no prompt
