"""The list of conversations: what it shows, and what a person does there."""

import time
from datetime import date, datetime

import pytest
from imgui_bundle import imgui

from llm_lite.core.messages import AnswerRun
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import NewChat, Send
from llm_lite.desktop.features.history.model import (
    ArchiveConversation,
    BeginRename,
    ChooseConversations,
    DeleteAll,
    DeleteConversation,
    ExportConversation,
    ImportConversations,
    OpenConversation,
    PinConversation,
    RedoHistory,
    RenameConversation,
    RestoreConversation,
    RowsChanged,
    RowsRead,
    SearchAnswered,
    SearchHistory,
    ShowHistory,
    ShowHistoryPart,
    UndoHistory,
    WantMoreRows,
)
from llm_lite.desktop.features.history.rows import fitted, grouped
from llm_lite.desktop.features.history.state import ConversationRow, FoundRow, HistoryState
from llm_lite.desktop.features.history.view import cut
from llm_lite.desktop.features.program.state import Message
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.headless import READY
from tests.desktop.other_versions import with_beside

KEY = imgui.Key
NOW = time.time()
WROTE = AnswerRun.by(MODEL, EXECUTOR)
TALK = (
    Message("user", "Second"),
    Message("assistant", "Said.", stop_reason="end", written=WROTE, sampling=READY.sampling),
    Message("user", "More"),
    Message("assistant", "More said.", stop_reason="end", written=WROTE),
)
TREE = with_beside(TALK, 0, Message("user", "First"))


def rows(count, **changes):
    return tuple(
        ConversationRow(1000 - n, f"Talk number {n}", NOW - n * 60.0, **changes)
        for n in range(count)
    )


@pytest.fixture
def listed(headless):
    """listed(rows) -> the interface with these in the list."""

    def make(shown=None, **options):
        one = headless(READY, **options)
        shown = rows(5) if shown is None else shown
        one.program.do(RowsRead("all", shown, more=False))
        one.driver.frames(3)
        one.done.clear()
        return one

    return make


def row(number=0):
    return f"history.row.{1000 - number}"


def right_click(one, name):
    one.driver.point(name)
    for down in (True, False):
        imgui.get_io().add_mouse_button_event(1, down)
        one.driver.frames(2)
    one.driver.frames(2)


def test_a_click_opens_a_conversation(listed):
    one = listed()
    one.driver.click(row(2))
    assert one.did(OpenConversation) == [OpenConversation(998)]


def test_a_double_click_renames_in_place(listed):
    one = listed()
    one.driver.point(row(1))
    for down in (True, False, True, False):
        imgui.get_io().add_mouse_button_event(0, down)
        one.driver.frames()
    one.driver.frames(2)
    assert one.did(BeginRename) == [BeginRename(999)]
    one.driver.type("Other words")
    one.driver.press(KEY.enter)
    assert one.did(RenameConversation) == [RenameConversation(999, "Other words")]
    assert one.state.history.rows[1].title == "Other words"
    assert one.state.history.renaming is None


def test_escape_leaves_the_title_as_it_was(listed):
    one = listed()
    one.program.do(BeginRename(999))
    one.driver.frames(3)
    one.driver.type("Other words")
    one.driver.press(KEY.escape)
    assert not one.did(RenameConversation)
    assert one.state.history.renaming is None


def test_f2_renames_the_conversation_that_is_open(listed):
    one = listed()
    one.program.state = replace(one.state, history=replace(one.state.history, open=1000))
    one.driver.press(KEY.f2)
    assert one.state.history.renaming == 1000


@pytest.mark.parametrize(
    ("item", "action"),
    [
        ("open", OpenConversation(1000)),
        ("rename", BeginRename(1000)),
        ("pin", PinConversation(1000, True)),
        ("archive", ArchiveConversation(1000, True)),
        ("delete", DeleteConversation(1000)),
    ],
)
def test_the_menu_of_a_row(listed, item, action):
    one = listed()
    right_click(one, row())
    one.driver.click(f"history.menu.{item}")
    assert action in one.done
    assert not one.driver.shows("history.menu")


def test_the_button_of_a_row_opens_its_menu_and_not_the_conversation(listed):
    one = listed()
    one.driver.point(row())
    one.driver.click(f"{row()}.more")
    assert one.driver.shows("history.menu")
    one.driver.press(KEY.escape)
    one.driver.frames(2)
    assert not one.driver.shows("history.menu")
    right_click(one, row())
    one.driver.click("chat.input")
    one.driver.frames(2)
    assert not one.driver.shows("history.menu")
    assert not one.did(OpenConversation)


def test_a_conversation_is_exported_to_the_path_that_is_said(listed):
    one = listed()
    right_click(one, row())
    one.driver.click("history.menu.export")
    one.driver.click("history.export.html")
    (action,) = one.did(ExportConversation)
    assert (action.id, action.kind) == (1000, "html")
    assert action.path.endswith("Talk number 0.html")


def test_the_list_as_a_whole(listed):
    one = listed()
    one.driver.click("history.more")
    one.driver.click("history.list.delete_all")
    assert not one.did(DeleteAll)
    one.driver.click("history.sure.yes")
    assert one.did(DeleteAll)
    one.driver.click("history.more")
    one.driver.click("history.list.import")
    one.driver.click("history.import.path")
    one.driver.type("talks.json")
    one.driver.click("history.import.go")
    assert one.did(ImportConversations) == [ImportConversations("talks.json")]
    one.driver.click("history.more")
    one.driver.click("history.list.deleted")
    assert one.state.history.part == "deleted"
    one.program.do(RowsRead("deleted", rows(2, part="deleted"), more=False))
    one.driver.frames(3)
    one.driver.click(row())
    one.driver.click("history.menu.restore")
    assert one.did(RestoreConversation) == [RestoreConversation(1000)]
    one.driver.click("history.back")
    assert one.did(ShowHistoryPart)[-1] == ShowHistoryPart("all")


def test_only_rows_in_sight_are_drawn_and_more_are_asked_for(listed):
    one = listed(rows(3000))
    shown = [name for name in one.ui.rects if name.startswith("history.row.")]
    assert 10 < len(shown) < 40
    history = replace(one.state.history, more=True)
    one.program.state = replace(one.state, history=history)
    one.driver.frames(2)
    assert not one.did(WantMoreRows)
    one.driver.point(shown and "view.conversations")
    one.driver.wheel(-5000)
    one.driver.frames(4)
    assert one.did(WantMoreRows)


def test_a_search_marks_its_words_and_opens_the_message(listed):
    one = listed()
    one.driver.press(KEY.mod_ctrl, KEY.mod_shift, KEY.f)
    one.driver.type("blue")
    assert one.did(SearchHistory)[-1] == SearchHistory("blue")
    found = FoundRow(998, "Colours", 7, NOW, "the sky is blue here", ((11, 15),))
    one.program.do(SearchAnswered("blue", (found,), True))
    one.driver.frames(3)
    one.driver.click("history.found.0")
    assert one.did(OpenConversation) == [OpenConversation(998, 7)]
    one.driver.click("history.clear")
    assert one.state.history.query == ""
    one.driver.frames(2)
    assert one.driver.shows(row())


def test_an_answer_to_an_older_search_is_not_shown(listed):
    one = listed()
    one.program.do(SearchHistory("new"))
    one.program.do(SearchAnswered("old", (FoundRow(1, "", None, NOW, ""),), True))
    assert one.state.history.found == ()


def test_a_snippet_begins_a_little_before_its_first_mark(headless):
    one = headless()
    said = "word " * 40 + "needle and more words that follow it on and on"
    at = said.index("needle")
    imgui.new_frame()
    with one.ui.font(style="small"):
        (first, marks), *_ = cut(FoundRow(1, "", 2, NOW, said, ((at, at + 6),)), 180.0, 13.0)
    imgui.end_frame()
    assert first.startswith("…")
    assert [first[a:b] for a, b in marks] == ["needle"]


def test_keys_take_back_and_do_again_where_no_text_is_written(listed):
    one = listed()
    one.driver.click("chat.input")
    one.driver.type("some words")
    one.driver.press(KEY.mod_ctrl, KEY.z)  # the input has the focus, and its own undo
    assert not one.did(UndoHistory)
    one.driver.click("history.more")
    one.driver.press(KEY.escape)
    one.driver.frames(3)
    one.driver.press(KEY.mod_ctrl, KEY.z)
    one.driver.press(KEY.mod_ctrl, KEY.mod_shift, KEY.z)
    assert one.did(UndoHistory) and one.did(RedoHistory)


def test_the_rail_hides_and_shows_the_list(listed):
    one = listed()
    one.driver.click("rail.conversations")
    assert one.did(ShowHistory) == [ShowHistory(False)]
    assert not one.driver.shows("history.search")
    one.driver.press(KEY.mod_ctrl, KEY.mod_shift, KEY.f)
    assert one.driver.shows("history.search")


def test_rows_stand_under_their_day_or_month():
    today = date(2026, 3, 12)

    def at(*day):
        return datetime(*day).timestamp()

    moments = [
        (at(2025, 1, 1), True),
        (at(2026, 3, 12, 9), False),
        (at(2026, 3, 12, 0), False),
        (at(2026, 3, 11, 23), False),
        (at(2026, 3, 6), False),
        (at(2026, 3, 5), False),
        (at(2026, 3, 4, 23), False),
        (at(2026, 2, 1), False),
        (at(2025, 12, 31), False),
    ]
    listing = [ConversationRow(n, "", *moment) for n, moment in enumerate(moments)]
    labels = [entry.label for entry in grouped(listing, today) if entry.row is None]
    assert labels == [
        "Pinned",
        "Today",
        "Yesterday",
        "Previous 7 days",
        "March",
        "February",
        "December 2025",
    ]


def test_rows_that_change_move_to_their_place_or_leave():
    state = HistoryState(rows=rows(4), read=True)
    (first, second, third, last) = state.rows
    assert state.with_rows([second]) is state
    pinned = replace(last, pinned=True)
    assert state.with_rows([pinned]).rows == (pinned, first, second, third)
    gone = replace(first, part="archived")
    assert state.with_rows([gone]).rows == (second, third, last)
    older = ConversationRow(1, "Of another page", NOW - 1e6)
    assert state.with_rows([older]).rows[-1] == older
    paged = replace(state, more=True)
    assert older not in paged.with_rows([older]).rows
    again = [replace(row, title="Again") for row in (*state.rows, older)]
    assert list(paged.with_rows(again).rows) == again[:-1]  # the whole page stays, and only it
    assert paged.with_rows([replace(row, part="deleted") for row in state.rows]).rows == ()
    assert state.without([first.id]).rows == (second, third, last)


def test_a_page_joins_rows_that_changed_since_it_was_asked_for(listed):
    one = listed(rows(3))
    more = (ConversationRow(5, "Old", 1.0),)
    one.program.do(RowsRead("archived", more, False, after=998))
    assert len(one.state.history.rows) == 3
    one.program.do(RowsRead("all", more, False, after=77))
    assert [row.id for row in one.state.history.rows] == [1000, 999, 998, 5]
    one.program.do(RowsChanged((), (5,)))
    assert len(one.state.history.rows) == 3


def test_new_chat_ends_what_was_open(listed):
    one = listed()
    one.program.state = replace(
        one.state,
        tree=with_beside(TALK, 0, Message("user", "First")),
        history=replace(one.state.history, open=1000),
    )
    one.driver.press(KEY.mod_ctrl, KEY.n)
    assert one.did(NewChat)
    assert one.state.history.open is None


def test_a_fork_is_told_from_its_origin_in_a_narrow_list(headless):
    one, title = headless(READY), "Rain: A Vital Element in the Cycle of Life"
    imgui.new_frame()
    try:
        origin, fork, long = (
            fitted(one.ui, words, 200.0)
            for words in (title, f"{title} (fork)", f"{title} (and of all the seas)")
        )
        assert imgui.calc_text_size(fork).x <= 200
    finally:
        imgui.end_frame()
    assert origin.endswith("…") and fork.endswith("… (fork)") and long.endswith("…")


def test_a_path_to_import_is_typed_without_a_click(listed):
    one = listed()
    one.driver.click("history.more")
    one.driver.click("history.list.import")
    one.driver.frames(3)
    one.driver.type("/tmp/talks.json")
    one.driver.click("history.import.go")
    assert one.did(ImportConversations) == [ImportConversations("/tmp/talks.json")]


def test_the_open_conversation_is_exported_by_the_palette(listed):
    one = listed()
    one.program.state = replace(one.state, history=replace(one.state.history, open=999))
    one.driver.press(KEY.mod_ctrl, KEY.k)
    one.driver.type("exprot conversation")
    one.driver.frames(3)
    one.driver.press(KEY.enter)
    one.driver.frames(4)
    one.driver.click("history.export.json")
    (action,) = one.did(ExportConversation)
    assert (action.id, action.kind) == (999, "json")
    assert action.path.endswith("Talk number 1.json")


def press_f2(one):
    one.program.state = replace(one.state, history=replace(one.state.history, open=1000))
    one.driver.press(KEY.f2)
    one.driver.frames(2)


def named(one):
    """Type a name, and see that it goes there and nowhere else."""
    one.driver.type("A better name")
    one.driver.press(KEY.enter)
    assert one.did(RenameConversation) == [RenameConversation(1000, "A better name")]
    assert one.state.draft == "" and not one.did(Send) and one.state.history.renaming is None


def test_a_conversation_is_renamed_while_a_search_is_shown(listed):
    one = listed()
    one.program.do(SearchHistory("other"))
    found = (FoundRow(998, "Another", 7, NOW, "other words", ((0, 5),)),)
    one.program.do(SearchAnswered("other", found, True))
    one.driver.frames(2)
    press_f2(one)
    named(one)


def test_a_conversation_is_renamed_that_is_far_down_in_the_list(listed):
    one = listed()
    old = ConversationRow(1000, "Old", NOW - 1e7)
    shown = replace(one.state.history, rows=(*rows(120)[1:], old))
    one.program.state = replace(one.state, history=shown)
    one.driver.frames(2)
    assert not one.driver.shows("history.row.1000")
    press_f2(one)
    assert one.driver.shows("history.rename")
    named(one)


def test_a_conversation_is_renamed_that_the_list_does_not_show(listed):
    """As one of another page, or of those that are archived."""
    one = listed(rows(4)[1:])
    press_f2(one)
    named(one)


def test_enter_opens_the_first_that_a_search_found(listed):
    one = listed()
    one.driver.click("history.search")
    one.driver.type("other")
    one.driver.press(KEY.enter)
    assert not one.did(OpenConversation), "nothing is found yet"
    found = (FoundRow(998, "Another", 7, NOW, "other words", ((0, 5),)),)
    one.program.do(SearchAnswered("other", found, True))
    one.driver.frames(2)
    one.driver.click("history.search")
    one.driver.press(KEY.enter)
    assert one.did(OpenConversation) == [OpenConversation(998, 7)]


def test_enter_imports_the_path_and_a_file_can_be_chosen(listed):
    one = listed()
    one.driver.click("history.more")
    one.driver.click("history.list.import")
    one.driver.frames(3)
    one.driver.press(KEY.enter)
    assert not one.did(ImportConversations), "no path is typed"
    one.driver.click("history.import.path")
    one.driver.type("/tmp/talks.json")
    one.driver.press(KEY.enter)
    assert one.did(ImportConversations) == [ImportConversations("/tmp/talks.json")]
    one.driver.click("history.more")
    one.driver.click("history.list.import")
    one.driver.click("history.import.choose")
    assert one.did(ChooseConversations) and not one.driver.shows("history.import.path")
