"""Forks from a token, from a word and from a message, and the map, by mouse and keys."""

import pytest
from imgui_bundle import imgui

from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import Generate, LoadModel, ModelLoaded, SpellTokens
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import EditMessage, NewChat, Regenerate, Send
from llm_lite.desktop.features.history.host import HistoryHost
from llm_lite.desktop.features.history.model import OpenConversation
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.model import SetXRay
from llm_lite.desktop.features.tokens.state import XRay
from llm_lite.desktop.features.tree import view
from llm_lite.desktop.features.tree.model import ContinueText, ShowMessage
from llm_lite.desktop.widgets.markdown.characters import page_text, source_place
from llm_lite.desktop.widgets.markdown.reading import Reader
from tests.children import PATIENCE
from tests.desktop.engine.answers import ANSWER, MORE, THINK
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.engine.vocabulary import OTHER_ID
from tests.desktop.headless import sent
from tests.desktop.history.test_tree import chain
from tests.desktop.other_versions import others

KEY = imgui.Key


class Talk:
    """The real interface with an engine that answers and a history."""

    def __init__(self, headless, folder):
        self.one = headless(AppState(), size=(1400, 900))
        self.program, self.driver = self.one.program, self.one.driver
        self.keeper = HistoryHost(folder / "history.db", lambda: None)
        self.program.use("history", self.keeper)
        self.engine = ScriptedEngine(0.0)
        self.program.start(self.engine)
        self.engine.submit(LoadModel(None))
        self.driver.wait("the model", lambda s: s.model is not None)
        self.engine.source = None  # nobody looks at attention here

    @property
    def state(self):
        return self.program.state

    def do(self, *actions):
        for action in actions:
            self.program.do(action)
            self.ended()

    def ended(self):
        self.driver.frames(3)
        self.driver.wait("the end", lambda s: not s.busy, PATIENCE, 0.001)
        self.driver.frames(2)

    def last(self):
        return sent(self.engine, Generate)[-1]

    def reopened(self):
        """The conversation as the history has it."""
        number = self.state.history.open
        self.program.do(OpenConversation(-1))
        self.driver.wait("none", lambda s: s.history.opening is None, PATIENCE, 0.001)
        self.do(NewChat())
        self.program.do(OpenConversation(number))
        self.driver.wait("it", lambda s: s.history.open == number and bool(s.messages), PATIENCE)


@pytest.fixture
def talk(headless, tmp_path):
    made = []

    def make():
        made.append(Talk(headless, tmp_path))
        return made[-1]

    yield make
    for one in made:
        one.keeper.end()
        assert one.keeper.finish(PATIENCE)


def xray(one):
    one.do(SetXRay(XRay(shown=True, probabilities=True)))
    one.driver.frames(3)


def show_top(one):
    """The first answer, in sight."""
    one.do(ShowMessage(one.state.messages[1].id))
    one.driver.frames(6)


def test_an_older_answer_goes_on_behind_a_token(talk):
    one = talk()
    one.do(Send("First"), Send("Second"))
    before = one.state.messages
    xray(one)
    show_top(one)
    one.driver.click("token.1.4")
    one.driver.click("tokens.choice.on")
    one.ended()
    assert one.last().forced == tuple(t.id for t in before[1].tokens[:5])
    assert len(one.state.messages) == 2
    assert others(one.state, 1)[0].tokens == before[1].tokens
    kept = one.state.tree.showing(before[1].id).path
    assert [m.id for m in kept] == [m.id for m in before]  # what followed stays with it


def test_another_token_is_taken_instead(talk):
    one = talk()
    one.do(Send("First"), Send("Second"))
    xray(one)
    show_top(one)
    one.driver.click("token.1.4")
    one.driver.click(f"tokens.choice.{OTHER_ID}")
    one.ended()
    assert one.last().forced[4] == OTHER_ID and len(one.last().forced) == 5


def test_a_reopened_answer_is_spelled_and_goes_on_by_its_own_tokens(talk):
    one = talk()
    one.do(Send("First"))
    ids = tuple(t.id for t in one.state.messages[1].tokens)
    one.reopened()
    message = one.state.messages[1]
    assert message.restored and message.pieces == []
    xray(one)
    one.driver.wait("spelling", lambda s: not s.messages[1].restored, PATIENCE, 0.001)
    assert [c.tokens for c in sent(one.engine, SpellTokens)] == [ids]
    assert "".join(t.text for t in one.state.messages[1].tokens) == ANSWER
    one.driver.frames(4)
    show_top(one)
    one.driver.click("token.1.4")
    assert not one.driver.shows(f"tokens.choice.{OTHER_ID}")  # the history keeps no others
    one.driver.click("tokens.choice.on")
    one.ended()
    assert one.last().forced == ids[:5]


def other_model(one):
    model = replace(MODEL, name="Other", path="/models/other.gguf")
    one.engine.report(ModelLoaded(model, EXECUTOR, 0.1))
    one.driver.wait("the other", lambda s: s.model.name == "Other", PATIENCE, 0.001)


def test_another_models_answer_is_told_as_text_and_that_is_said(talk):
    one = talk()
    one.do(Send("First"), Send("Second"))
    other_model(one)
    text = one.state.messages[1].text
    one.do(ContinueText(1, 20))
    command = one.last()
    assert command.forced == () and command.begin.content == text[:20]
    assert one.state.messages[1].text == text[:20] + MORE
    assert one.state.messages[1].written.model.name == "Other"
    words = "SmolLM2-135M-Instruct wrote the beginning. Other reads it as text"
    assert any(n.text.startswith(words) for n in one.state.notices)
    one.do(Send("Third"))
    assert one.last().messages[-2].tokens != ()  # this one's own
    one.do(ShowMessage(others(one.state, 1)[0].id))
    one.do(Send("Fourth"))
    assert [m.tokens for m in one.last().messages if m.role == "assistant"] == [(), ()]


@pytest.mark.parametrize("where", ["thought", "said"])
def test_a_fork_within_thoughts_leaves_them_open(talk, where):
    one = talk()
    one.do(Send(THINK + "why?"))
    other_model(one)
    message = one.state.messages[1]
    thought, whole = message.thought.text, message.whole
    at = whole.find(thought) + 30 if where == "thought" else whole.rfind(message.text) + 12
    one.do(ContinueText(1, at))
    begin = one.last().begin
    if where == "thought":
        assert (begin.thought, begin.content) == (thought[:30], "")
        assert one.state.messages[1].thought.text.startswith(thought[:30] + MORE)
    else:
        assert (begin.thought, begin.content) == (thought, message.text[:12])
        assert one.state.messages[1].text == message.text[:12] + MORE


def right_click(one, x, y):
    one.driver.point_at(x, y)
    one.driver.press_button(1)


def test_the_menu_of_a_text_continues_behind_the_word_and_forks(talk):
    one = talk()
    one.do(Send("First"), Send("Second"))
    show_top(one)
    x0, y0, _, _ = one.driver.rect("message.1")
    right_click(one, x0 + 30, y0 + 30)
    number = one.state.history.open
    one.driver.click("selection.menu.continue")
    one.ended()
    kept = one.last().forced
    said = "".join(t.text for t in one.state.messages[1].tokens[: len(kept)])
    assert ANSWER.startswith(said) and 4 <= len(said) < 40
    show_top(one)
    x0, y0, _, _ = one.driver.rect("message.1")
    right_click(one, x0 + 30, y0 + 30)
    one.driver.click("selection.menu.fork")
    until = lambda s: s.history.open not in (None, number) and s.history.opening is None  # noqa: E731
    one.driver.wait("the fork", until, PATIENCE, 0.001)
    assert one.state.tree.count == len(one.state.messages) == 2


@pytest.mark.parametrize(
    ("shown", "kept"),
    [
        ("bold", "Two **bold"),
        ("end", "Two **bold words** and [a link](http://words.org/end) end"),
    ],
)
def test_a_place_in_what_is_shown_is_one_in_the_source(shown, kept):
    text = "Two **bold words** and [a link](http://words.org/end) end."
    blocks = [piece.block for piece in Reader().read(text, {}).pieces]
    at = page_text(blocks).rfind(shown)
    assert text[: source_place(text, blocks, at)] == kept


def test_the_map_shows_the_tree_and_leads_there(talk):
    one = talk()
    one.do(Send("First"), Send("Second"), EditMessage(2), Send("Otherwise"), Regenerate(1))
    one.driver.click("chat.map")
    assert one.driver.shows("tree.map")
    old = others(one.state, 1)[0]
    one.driver.click(f"tree.map.{old.id}")
    assert one.state.messages[1].id == old.id
    assert one.state.messages[2].text == "Otherwise"
    question = others(one.state, 2)[0]
    one.driver.press(KEY.down_arrow)
    one.driver.press(KEY.left_arrow)
    one.driver.press(KEY.enter)
    one.driver.frames(3)
    assert one.state.messages[2].id == question.id and question.text == "Second"
    one.driver.click("tree.map.undo")
    assert one.state.messages[2].text == "Otherwise"
    one.driver.click("tree.map.redo")
    assert one.state.messages[2].text == "Second"


def test_keys_undo_in_the_chat_and_not_in_a_text_field(talk):
    one = talk()
    one.do(Send("First"), Regenerate(1))
    assert one.state.tree.version(1) == 1
    one.driver.click("chat.input")
    one.driver.type("words")  # which the input can undo
    one.driver.press(KEY.mod_ctrl, KEY.z)
    assert one.state.tree.version(1) == 1
    one.driver.click("tab.log")  # the focus leaves the input
    one.driver.press(KEY.mod_ctrl, KEY.z)
    assert one.state.tree.version(1) == 0
    one.driver.press(KEY.mod_ctrl, KEY.mod_shift, KEY.z)
    assert one.state.tree.version(1) == 1


def test_a_frame_of_a_large_map_draws_what_is_in_sight(talk, monkeypatch):
    one = talk()
    messages = chain(2000)
    tree = ConversationTree(messages)
    for number in range(50):
        tree = tree.with_path((*messages[:401], *chain(4, f"v{number}")))
    one.program.state = replace(one.state, tree=tree.with_path(messages))
    keeper = one.program.hosts.pop("history")
    one.driver.frames(2)
    one.driver.click("chat.map")
    drawn, made = [], []
    cell, layout = view.draw_cell, view.tree_map
    monkeypatch.setattr(view, "draw_cell", lambda *a, **k: drawn.append(1) or cell(*a, **k))
    monkeypatch.setattr(view, "tree_map", lambda *a: made.append(1) or layout(*a))
    one.driver.frames(1)
    assert 0 < len(drawn) < 300 and not made
    held = one.one.ui.local(view.HeldMap)
    held.unfolded.update(range(2000))
    held.made = None
    one.driver.frames(1)
    drawn.clear()
    one.driver.frames(1)
    assert 0 < len(drawn) < 300 and len(made) == 1
    one.program.use("history", keeper)


def test_the_colours_of_a_reopened_answer_are_those_it_had(talk):
    one = talk()
    one.do(Send("First"))
    ids = one.state.messages[1].tokens
    one.do(ContinueText(1, 20))
    forked = one.state.messages[1]
    odds = [forked.likelihood(n) for n in range(len(forked.tokens))]
    assert odds[0] == ids[0].probability == 0.5
    one.reopened()
    there = one.state.messages[1]
    assert there.restored and [there.likelihood(n) for n in range(len(there.tokens))] == odds
    xray(one)
    one.driver.wait("spelling", lambda s: not s.messages[1].restored, PATIENCE, 0.001)
    there = one.state.messages[1]
    assert [token.probability for token in there.tokens] == odds
