"""A tree of a conversation against a plain model: a dictionary of parents, and the path."""

import random
from itertools import pairwise
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.core.history import ConversationSummary, ConversationTree, StoredConversation, fork
from llm_lite.core.history import StoredMessage as Stored


def message(number):
    return SimpleNamespace(id=number)


def is_sound(tree, parents):
    """Every message is there once, each in the place of its parent, the oldest first."""
    assert sorted(m.id for m in tree) == sorted(parents) and tree.count == len(parents)
    for index, one in enumerate(tree.path):
        before = tree.path[index - 1].id if index else None
        assert parents[one.id] == before
        beside = [number for number in sorted(parents) if parents[number] == before]
        assert list(tree.versions(index)) == beside
        assert beside[tree.version(index)] == one.id
    below = {}
    for number in sorted(parents):
        below.setdefault(parents[number], []).append(number)
    assert {at: [m.id for m in found] for at, found in tree.children().items()} == below
    for one in tree:
        way = [m.id for m in tree.path_to(one.id)]
        assert way[-1] == one.id and [parents[n] for n in way] == [None, *way[:-1]]


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_any_changes_lose_no_message_and_none_is_in_two_places(rng: random.Random, steps):
    tree, parents, left = ConversationTree(), {}, {}
    for number in range(1, steps + 1):
        ids = [m.id for m in tree.path]
        if parents and rng.random() < 0.4:  # another path, as it was left
            wanted = rng.choice(sorted(parents))
            shown = wanted in ids
            tree = tree.showing(wanted)
            path = [m.id for m in tree.path]
            assert wanted in path and (path == ids) == shown
            at = wanted if not shown else None
            while at in left and not shown:
                assert path[path.index(at) + 1] == left[at]
                at = left[at]
        else:  # a message behind any that is shown, or in its place
            index = rng.randint(0, len(ids))
            parents[number] = ids[index - 1] if index else None
            tree = tree.with_path((*tree.path[:index], message(number)))
        path = [m.id for m in tree.path]
        left |= dict(pairwise(path))
        left.pop(path[-1], None)
        is_sound(tree, parents)


def test_another_content_takes_the_place_of_its_message():
    tree = ConversationTree((message(1), message(2))).with_path((message(1), message(3)))
    grown = SimpleNamespace(id=3, text="more")
    again = tree.with_path((tree.path[0], grown))
    assert again.path[1] is grown and again.aside == tree.aside and again.places == tree.places


def test_what_was_cut_off_is_a_version_of_what_comes_in_its_place():
    tree = ConversationTree((message(1), message(2))).with_path((message(1),))
    assert (tree.leaf, list(tree.aside)) == (1, [2])
    tree = tree.with_path((*tree.path, message(3)))
    assert tree.versions(1) == (2, 3)


def kept(*rows, first=None):
    messages = tuple(
        Stored(number, 9, parent, "user", selected=chosen) for number, parent, chosen in rows
    )
    return StoredConversation(ConversationSummary(9, selected=first), messages)


def test_where_none_is_chosen_the_newest_is_shown():
    tree = ConversationTree.of(kept((1, None, None), (2, 1, None), (3, 1, None)))
    assert [m.id for m in tree.path] == [1, 3]
    tree = ConversationTree.of(kept((1, None, 77), (2, 1, None), (3, 1, None), first=88))
    assert [m.id for m in tree.path] == [1, 3], "also where the chosen one is not there"


def test_a_message_without_its_parent_hurts_nobody():
    """A file that was damaged may have lost some."""
    whole = kept((1, None, 2), (2, 1, None), (5, 4, None), first=1)
    tree = ConversationTree.of(whole)
    assert [m.id for m in tree.path] == [1, 2] and tree.find(5) is not None
    assert tree.path_to(5) == () and tree.showing(5) is tree
    assert fork(whole, 5, "Fork").messages == ()


def test_messages_behind_each_other_in_a_circle_end_somewhere():
    tree = ConversationTree.of(kept((1, None, 1), (2, 3, 3), (3, 2, 2), (4, 4, 4), first=2))
    assert [m.id for m in tree.path] == [1] and tree.count == 4
    assert tree.path_to(2) == tree.path_to(3) == tree.path_to(4) == ()
    assert tree.showing(3) is tree and tree.children()[None] == tree.path
