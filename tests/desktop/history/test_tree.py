"""Every message of a conversation's tree has a place on its map, and a way that leads there."""

from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.core.records import replace
from llm_lite.desktop.features.history.host_recorder import in_chat
from llm_lite.desktop.features.program.act import act
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.tree.model import ShowMessage, places_of, way_to
from llm_lite.desktop.features.tree.tree_map import LEAST, tree_map
from tests.desktop.history.test_history import all_of, conversation_of


def chain(count, words="said"):
    roles = ("user", "assistant")
    return tuple(Message(roles[n % 2], f"{words} {n}", stop_reason="end") for n in range(count))


@st.composite
def trees(draw):
    count = draw(st.integers(1, 30))
    parents = [draw(st.integers(max(0, n - 6), n)) for n in range(count)]
    chosen = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    return in_chat(conversation_of(parents, chosen))[0]


@settings(deadline=None)
@given(trees())
def test_each_message_can_be_shown_from_the_map(messages):
    state = AppState(messages=messages)
    everything = all_of(messages)
    for message in everything:
        there, _ = act(ShowMessage(message.key), state, 0.0)
        assert message.key in {m.key for m in there.messages}
        assert len(all_of(there.messages)) == len(everything)
        assert there.history.reveal == message.key
        way = way_to(messages, message.key)
        assert way == places_of(there.messages)[: len(way)]


@settings(deadline=None)
@given(trees(), st.data())
def test_the_map_has_a_place_for_each_and_stays_when_another_path_is_shown(messages, data):
    keys = {m.key for m in all_of(messages)}
    every = range(len(keys) + 1)
    found = tree_map(messages, every)
    assert set(found.places) == set(found.messages) == keys
    spots = {(at, cell.column) for at, row in enumerate(found.rows) for cell in row.cells}
    assert len(spots) == len(keys)  # none lies over another
    for number, row in enumerate(found.rows):
        for cell in row.cells:
            assert cell.count == 1 and cell.index == number
            if number:
                above = found.rows[number - 1].between(cell.above, cell.above)
                assert len(above) == 1 and cell.column >= cell.above
    key = data.draw(st.sampled_from(sorted(keys)))
    there, _ = act(ShowMessage(key), AppState(messages=messages), 0.0)
    again = tree_map(there.messages, every)
    assert again.rows == found.rows
    assert again.beside == len(keys) - len(there.messages)


@settings(deadline=None)
@given(trees())
def test_lines_of_a_map_do_not_cross(messages):
    found = tree_map(messages, range(99))
    for number, row in enumerate(found.rows[1:], 1):
        below = {(cell.above, cell.column) for cell in row.cells}
        upright = {a for a, b in below if a == b}
        for first, last in row.forks:
            others = upright - {first}
            assert not any(first < column < last for column in others), number


def test_a_run_without_branches_is_one_cell():
    messages = chain(2000)
    beside = (replace(messages[1000], text="otherwise", key=10**9),)
    messages = (*messages[:1000], replace(messages[1000], versions=(beside,)), *messages[1001:])
    found = tree_map(messages)
    assert len(found.rows) < 3 * LEAST
    assert sum(row.cells[0].count for row in found.rows) == 2000
    assert found.cell(10**9).column == 1 and found.beside == 1
    runs = [row.cells[0] for row in found.rows if row.cells[0].count > 1]
    assert [run.index for run in runs] == [1, 1001]
    unfolded = tree_map(messages, [1])
    assert len(unfolded.rows) == len(found.rows) + runs[0].count - 1


def test_what_is_not_there_is_no_way():
    state = AppState(messages=chain(3))
    assert way_to(state.messages, -1) is None
    assert act(ShowMessage(-1), state, 0.0) == (state, ())
    assert tree_map(()).rows == ()
