"""The command palette: what it finds, how it is used with the keys, and what it costs."""

import sys

import pytest
from imgui_bundle import imgui

from llm_lite.core import history as kept
from llm_lite.core.history import ConversationTree
from llm_lite.core.records import replace
from llm_lite.desktop.app.settings import parse, remember, restore
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.chat.model import NewChat
from llm_lite.desktop.features.commands.settings import SETTINGS
from llm_lite.desktop.features.history.host import HistoryHost
from llm_lite.desktop.features.history.model import OpenConversation, RowsRead
from llm_lite.desktop.features.history.state import ConversationRow, FoundRow
from llm_lite.desktop.features.palette import view as palette
from llm_lite.desktop.features.palette.model import PaletteAnswered, SearchPalette, fold, match
from llm_lite.desktop.features.palette.state import MOST_RECENT, PaletteState
from llm_lite.desktop.features.presets.model import ChoosePreset
from llm_lite.desktop.features.program.model import OpenModel, SetLanguage
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState, CatalogueEntry, Message, Running
from llm_lite.desktop.widgets.ui import Ui
from tests.desktop.headless import READY, Headless

KEY = imgui.Key
NOW = 1.8e9


def rows(count):
    return tuple(ConversationRow(1 + n, f"Talk {n} of boats", NOW - n) for n in range(count))


def opened(headless, state=READY, **options):
    one = headless(state, **options)
    one.driver.press(KEY.mod_ctrl, KEY.k)
    assert one.driver.shows("palette")
    return one


def titles(one):
    return [offer.item.title for offer in one.ui.local(palette.OpenPalette).held.rows]


def chosen(one):
    held = one.ui.local(palette.OpenPalette).held
    return held.rows[held.at].item.key


def marked(query, title):
    found = match(fold(query), title)
    return None if found is None else "".join(title[at] for at in found.at)


@pytest.mark.parametrize(
    ("query", "title", "letters"),
    [
        ("temp", "Temperature", "Temp"),
        ("ctx", "Context", "Ctx"),
        ("nc", "New chat", "Nc"),
        ("chat new", "New chat", "Newchat"),
        ("두 실행", "두 실행 비교", "두실행"),
        ("산책", "비 오는 날의 산책", "산책"),
        ("İstanbul", "İstanbul trip", "İstanbul"),
        ("zzz", "New chat", None),
        ("wn", "New chat", None),
    ],
)
def test_letters_that_match(query, title, letters):
    assert marked(query, title) == letters


def test_whole_words_come_before_parts_and_scattered_letters():
    scores = [match("log", t).score for t in ("Log", "Clear the log", "Catalogue", "Large or gone")]
    assert scores == sorted(scores, reverse=True)


def test_all_that_a_person_can_go_to_is_found(headless):
    state = replace(
        READY,
        presets=("Poet",),
        recent=("/models/other.gguf",),
        catalogue=(CatalogueEntry("smol", "/smol.gguf", "Smol model", "free", 1),),
    )
    one = opened(headless, state)
    for query, key in {
        "new chat": "command:new_chat",
        "temperature": "setting:sampler.temperature",
        "dry": "setting:sampler.dry_multiplier",
        "performance": "panel:performance",
        "smol model": "model:smol",
        "other.gguf": "model:/models/other.gguf",
        "poet": "preset:Poet",
        "L1 H2": "head:1.2",
        "head 1.2": "head:1.2",
        "layer 1 head 2": "head:1.2",
    }.items():
        found = palette.found(query, one.state, one.ui)
        assert found[0].item.key == key, query
    assert palette.found("L999 H0", one.state, one.ui) == []
    assert len(palette.found("l1", one.state, one.ui)) >= one.state.model.heads


def test_english_names_are_known_in_every_language(headless):
    one = headless(READY)
    one.program.do(SetLanguage("ko"))
    one.driver.frames(3)
    for query in ("compare", "new chat", "temperature", "performance"):
        said = {item.key: item.title for item in palette.fixed(one.state, one.ui)}
        found = [offer.item.key for offer in palette.found(query, one.state, one.ui)]
        assert found and not said[found[0]].isascii(), query
    assert [command.name for command in palette.matching_shortcuts("new chat")] == ["new_chat"]


def test_keys_move_and_choose(headless):
    one = opened(headless)
    first = chosen(one)
    one.driver.press(KEY.down_arrow)
    second = chosen(one)
    assert second != first
    one.driver.press(KEY.up_arrow)
    assert chosen(one) == first
    one.driver.press(KEY.page_down)
    assert one.ui.local(palette.OpenPalette).held.at > 3
    one.driver.press(KEY.page_up)
    assert chosen(one) == first
    one.driver.press(KEY.up_arrow)  # around
    assert one.ui.local(palette.OpenPalette).held.at == len(titles(one)) - 1
    one.driver.type("new chat")
    assert titles(one)[0] == "New chat"
    one.driver.press(KEY.enter)
    one.driver.frames(2)
    assert one.did(NewChat) and not one.driver.shows("palette")
    assert one.state.palette.recent == ("command:new_chat",)


def test_escape_closes_and_the_input_has_the_keys(headless):
    one = opened(headless)
    one.driver.type("so")
    one.driver.press(KEY.escape)
    one.driver.frames(3)
    assert not one.driver.shows("palette") and one.state.draft == ""
    one.driver.type("hello")
    assert one.state.draft == "hello"


def test_the_same_keys_close_it(headless):
    one = opened(headless)
    one.driver.press(KEY.mod_ctrl, KEY.k)
    one.driver.frames(2)
    assert not one.driver.shows("palette")


def test_what_was_chosen_lately_comes_first_and_is_remembered(headless):
    one = opened(headless)
    for words in ("log", "sampling"):
        one.driver.type(words)
        one.driver.press(KEY.enter)
        one.driver.frames(3)
        one.driver.press(KEY.escape)
        one.driver.press(KEY.mod_ctrl, KEY.k)
    assert [offer.item.key for offer in one.ui.local(palette.OpenPalette).held.rows[:2]] == [
        "command:sampler",
        "panel:log",
    ]
    assert one.ui.local(palette.OpenPalette).held.rows[0].heading == "Recent choices"
    kept_ones = remember(one.state, Settings()).choices
    assert restore(Settings(choices=kept_ones), AppState()).palette.recent == kept_ones


@pytest.mark.parametrize("found", ["text", [1, None, "command:log"], ["x" * 10000], {"a": 1}])
def test_remembered_choices_are_untrusted(found):
    problems = []
    choices = parse({"choices": found}, Settings(), problems).choices
    assert len(choices) <= MOST_RECENT and all(isinstance(c, str) for c in choices)
    assert len(PaletteState(recent=choices).chose("new")) <= MOST_RECENT


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.control)
def test_a_setting_is_shown_and_has_the_keys(headless, monkeypatch, setting):
    one, ids, mark = headless(size=(1280, 900)), {}, Ui.mark

    def noted(self, name):
        ids[name] = imgui.get_item_id()
        mark(self, name)

    monkeypatch.setattr(Ui, "mark", noted)
    offer = next(o for o in palette.fixed(one.state, one.ui) if o.key == setting.key)
    for action in offer.run(one.state, one.ui):
        one.program.do(action)
    one.driver.frames(6)
    assert one.driver.shows(setting.popover) and one.driver.shows(setting.control)
    context = imgui.get_current_context()
    io = imgui.get_io()
    assert io.nav_visible and (context.nav_id == ids[setting.control] or io.want_text_input)


def test_a_head_is_locked_and_shown(headless):
    one = headless(replace(READY))
    one.driver.press(KEY.mod_ctrl, KEY._1)
    assert not one.driver.shows("view.head")
    one.driver.press(KEY.mod_ctrl, KEY.k)
    one.driver.type("L1 H2")
    one.driver.press(KEY.enter)
    one.driver.frames(4)
    assert one.did(SetAttention) and one.state.attention.locked == ((1, 2),)
    assert one.state.layouts.name == "inspect" and one.driver.shows("view.head")


def test_models_and_presets_are_opened(headless):
    state = replace(READY, presets=("Poet",), recent=("/models/other.gguf",))
    one = opened(headless, state)
    one.driver.type("other.gguf")
    one.driver.press(KEY.enter)
    one.driver.frames(2)
    assert one.did(OpenModel) == [OpenModel("/models/other.gguf")]
    one.driver.press(KEY.mod_ctrl, KEY.k)
    one.driver.type("poet")
    one.driver.press(KEY.enter)
    assert one.did(ChoosePreset) == [ChoosePreset("Poet")]


def test_it_works_while_an_answer_comes(headless):
    state = replace(
        READY,
        running=Running(1, 0.0, "decode"),
        tree=ConversationTree((Message("user", "q"), Message("assistant", "a"))),
    )
    one = opened(headless, state)
    one.driver.type("stop the answer")
    assert titles(one)[0] == "Stop the answer"
    for n in range(5):  # tokens come: what is chosen stays chosen
        last = replace(one.state.messages[-1], text="a" * n)
        one.program.state = replace(
            one.state, tree=ConversationTree((*one.state.messages[:-1], last))
        )
        one.driver.frames(1)
    assert titles(one)[0] == "Stop the answer"
    one.driver.press(KEY.enter)
    assert one.state.running.stopping


def test_an_answer_of_an_older_question_is_dropped(headless):
    one = opened(headless)
    one.driver.type("boats")
    assert one.did(SearchPalette)[-1] == SearchPalette("boats")
    old = FoundRow(7, "An older one", None, NOW, "An older one")
    one.program.do(PaletteAnswered("boa", (old,)))
    assert one.state.palette.found == ()
    one.program.do(PaletteAnswered("boats", (FoundRow(8, "Of boats", 3, NOW, "said boats"),)))
    one.driver.frames(2)
    assert titles(one) == ["Of boats"]
    one.driver.press(KEY.enter)
    assert one.did(OpenConversation) == [OpenConversation(8, 3)]


def test_a_key_costs_the_same_however_many_conversations_there_are():
    """Calls that Python makes in the frame of a key."""

    def calls(count):
        one = Headless()
        one.program.do(RowsRead("all", rows(count), more=False))
        one.driver.press(KEY.mod_ctrl, KEY.k)
        one.driver.type("boat")
        imgui.get_io().add_input_characters_utf8("s")
        made = 0

        def count_call(frame, event, argument):
            nonlocal made
            made += event == "call"

        sys.setprofile(count_call)
        try:
            one.driver.frames(1)
        finally:
            sys.setprofile(None)
        assert "Talk 0 of boats" in titles(one)
        one.close()
        return made

    few, many = calls(palette.CONVERSATIONS), calls(10_000)
    assert many < 1.1 * few


def test_the_history_is_searched_on_its_own_thread(headless, tmp_path):
    one = headless()
    keeper = HistoryHost(tmp_path / "history.db", lambda: None)
    one.program.use("history", keeper)
    for title in ("Sailing to Iceland", "Bread"):
        about = kept.ConversationSummary(1, title, "message", NOW, NOW, selected=1)
        said = kept.StoredMessage(1, 1, None, "user", f"{title}, with herring", created=NOW)
        keeper.history.add(kept.StoredConversation(about, (said,)))
    one.driver.wait("the list", lambda s: len(s.history.rows) == 2)
    one.driver.press(KEY.mod_ctrl, KEY.k)
    one.driver.type("herring")
    one.driver.wait("what was found", lambda s: len(s.palette.found) == 2)
    one.driver.frames(2)
    assert sorted(titles(one)) == ["Bread", "Sailing to Iceland"]
    one.driver.press(KEY.escape)
    keeper.end()
    assert keeper.finish(10.0)


@pytest.mark.parametrize("typed", ["exprot", "expoft", "exort", "exxport", "expro"])
def test_a_word_with_one_mistake_is_found(typed):
    found = match(typed, "An export of all")
    assert found and min(found.at) == 3
    assert match("export", "An export of all").score > found.score + 20


@pytest.mark.parametrize("typed", ["xeport", "exptro!", "exprto", "evqort", "exq"])
def test_a_word_with_more_mistakes_is_another_one(typed):
    assert match(typed, "An export") is None


def test_a_conversation_is_found_by_words_with_mistakes():
    assert match("raim vitl", fold("Rain: A Vital Element"))
    assert match("raim vitl", "Snow: A Vital Element") is None
