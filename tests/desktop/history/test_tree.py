"""Every message of a conversation's tree has a place on its map, and a way that leads there."""

from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.core.history import ConversationTree
from llm_lite.core.records import replace
from llm_lite.desktop.features.history.host_recorder import in_chat
from llm_lite.desktop.features.program.act import act
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.tree.model import ShowMessage
from llm_lite.desktop.features.tree.tree_map import LEAST, tree_map
from tests.desktop.history.test_history import conversation_of


def chain(count, words="said"):
    roles = ("user", "assistant")
    return tuple(Message(roles[n % 2], f"{words} {n}", stop_reason="end") for n in range(count))


@st.composite
def trees(draw):
    count = draw(st.integers(1, 30))
    parents = [draw(st.integers(max(0, n - 6), n)) for n in range(count)]
    chosen = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    return in_chat(conversation_of(parents, chosen))


@settings(deadline=None)
@given(trees())
def test_each_message_can_be_shown_from_the_map(tree):
    state = AppState(tree=tree)
    for message in tree:
        there, _ = act(ShowMessage(message.id), state, 0.0)
        assert there.tree.index(message.id) is not None
        assert {m.id for m in there.tree} == {m.id for m in tree}
        assert there.history.reveal == message.id
        way = tree.path_to(message.id)
        assert way == there.messages[: len(way)]


@settings(deadline=None)
@given(trees(), st.data())
def test_the_map_has_a_place_for_each_and_stays_when_another_path_is_shown(tree, data):
    ids = {m.id for m in tree}
    every = range(len(ids) + 1)
    found = tree_map(tree, every)
    assert set(found.places) == set(found.messages) == ids
    spots = {(at, cell.column) for at, row in enumerate(found.rows) for cell in row.cells}
    assert len(spots) == len(ids)  # none lies over another
    for number, row in enumerate(found.rows):
        for cell in row.cells:
            assert cell.count == 1 and cell.index == number
            if number:
                above = found.rows[number - 1].between(cell.above, cell.above)
                assert len(above) == 1 and cell.column >= cell.above
    one = data.draw(st.sampled_from(sorted(ids)))
    there, _ = act(ShowMessage(one), AppState(tree=tree), 0.0)
    again = tree_map(there.tree, every)
    assert again.rows == found.rows
    assert again.beside == len(ids) - len(there.messages)


@settings(deadline=None)
@given(trees())
def test_lines_of_a_map_do_not_cross(tree):
    found = tree_map(tree, range(99))
    for number, row in enumerate(found.rows[1:], 1):
        below = {(cell.above, cell.column) for cell in row.cells}
        upright = {a for a, b in below if a == b}
        for first, last in row.forks:
            others = upright - {first}
            assert not any(first < column < last for column in others), number


def test_a_run_without_branches_is_one_cell():
    messages = chain(2000)
    beside = replace(messages[1000], text="otherwise", id=10**9)
    tree = ConversationTree(messages).with_path((*messages[:1000], beside)).with_path(messages)
    found = tree_map(tree)
    assert len(found.rows) < 3 * LEAST
    assert sum(row.cells[0].count for row in found.rows) == 2000
    assert found.cell(10**9).column == 1 and found.beside == 1
    runs = [row.cells[0] for row in found.rows if row.cells[0].count > 1]
    assert [run.index for run in runs] == [1, 1001]
    unfolded = tree_map(tree, [1])
    assert len(unfolded.rows) == len(found.rows) + runs[0].count - 1


def test_what_is_not_there_is_not_shown():
    state = AppState(tree=ConversationTree(chain(3)))
    assert state.tree.path_to(-1) == () and state.tree.showing(-1) is state.tree
    assert act(ShowMessage(-1), state, 0.0) == (state, ())
    assert tree_map(ConversationTree()).rows == ()
