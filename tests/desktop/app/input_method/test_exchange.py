"""Keys and an input method: order, time limit, what is kept. The daemon is played by hand."""

import random

import pytest

from llm_lite.desktop.app.input_method.exchange import LIMIT, MOST_HANGS, PATIENCE, Exchange, Key
from llm_lite.desktop.app.input_method.messages import (
    NOTHING,
    Answered,
    Committed,
    Composed,
    Composition,
    Forwarded,
    Lost,
    ShowsComposition,
)

PRESS, RELEASE, REPEAT = 1, 0, 2


class Written:
    """A field that notes what it is told, in order."""

    def __init__(self):
        self.told = []

    def key(self, key, scancode, action, mods):
        self.told.append(("key", key, action, mods))

    def character(self, code):
        self.told.append(chr(code))

    def text(self, text):
        self.told.append(text)

    def symbol(self, keyval, state):
        self.told.append(("symbol", keyval, state))

    def separate(self):
        self.told.append("|")

    @property
    def words(self):
        return "".join(one for one in self.told if isinstance(one, str))


class Calls:
    def __init__(self):
        self.calls, self.closed = [], False

    def call(self, member, signature="", body=(), number=0):
        self.calls.append((member, body, number))

    def close(self):
        self.closed = True

    @property
    def asked(self):
        """Numbers of keys, in order."""
        return [number for _, _, number in self.calls if number]

    def members(self):
        return [member for member, _, _ in self.calls]


class Desk:
    def __init__(self):
        self.field, self.daemon = Written(), Calls()
        self.exchange = Exchange(self.field)
        self.exchange.focus(True)
        self.exchange.connect(self.daemon)

    def press(self, letter, now=0.0, action=PRESS, mods=0):
        key = Key(ord(letter.upper()), ord(letter) - 60, action, mods)
        self.exchange.type(key, (ord(letter), ord(letter) - 68, 0), now)
        if action != RELEASE:
            self.exchange.write(ord(letter))

    def hear(self, *news, now=0.0):
        for one in news:
            self.exchange.handle(one, now)


@pytest.fixture
def desk():
    return Desk()


def test_a_key_waits_for_its_answer_and_its_character_with_it(desk):
    desk.press("a")
    assert desk.field.told == []
    desk.hear(Answered(1, False))
    assert desk.field.told == [("key", ord("A"), PRESS, 0), "a"]


def test_a_key_that_is_taken_writes_only_what_is_committed(desk):
    desk.press("a")
    desk.hear(Committed("한"), Answered(1, True))
    assert desk.field.told == ["한"]


def test_answers_in_another_order_do_not_change_the_order_of_keys(desk):
    for letter in "abc":
        desk.press(letter)
    desk.hear(Answered(3, False), Answered(1, False), Answered(2, True))
    assert desk.field.words == "ac"


def test_nothing_is_lost_or_doubled_whatever_is_answered_and_when(desk):
    """200 keys; each is taken, and then committed as a capital, or left; answers come late."""
    chance, waiting, expected = random.Random(7), [], ""
    for number in range(200):
        letter = chance.choice("abcdefgh")
        desk.press(letter)
        waiting.append((desk.daemon.asked[-1], letter))
        while waiting and chance.random() < 0.5:
            asked, letter = waiting.pop(0)
            if chance.random() < 0.5:
                desk.hear(Committed(letter.upper()), Answered(asked, True))
                expected += letter.upper()
            else:
                desk.hear(Answered(asked, False))
                expected += letter
        assert number >= 0
    for asked, letter in waiting:
        desk.hear(Answered(asked, False))
        expected += letter
    assert desk.field.words == expected


def test_releases_come_even_where_they_are_taken(desk):
    """Dear ImGui may know of the press: a Shift that toggles an input method must not stick."""
    desk.press("a")
    desk.press("a", action=RELEASE)
    desk.hear(Answered(1, False), Answered(2, True))
    assert desk.field.told[-1] == ("key", ord("A"), RELEASE, 0)


def test_a_repeat_after_a_press_that_was_taken_is_a_press(desk):
    desk.press("b")
    desk.press("b", action=REPEAT)
    desk.press("b", action=REPEAT)
    desk.hear(Answered(1, True), Answered(2, False), Answered(3, False))
    assert [told[2] for told in desk.field.told if isinstance(told, tuple)] == [PRESS, REPEAT]


def test_a_forwarded_key_comes_once_and_after_what_was_committed(desk):
    desk.press("x")
    desk.hear(Committed("국"), Forwarded(ord("x"), ord("x") - 68, 0), Answered(1, True))
    assert desk.field.told == ["국", ("key", ord("X"), PRESS, 0), "x"]
    desk.hear(Forwarded(0xFF0D, 28, 0), Forwarded(0xFF0D, 28, 1 << 30))
    assert desk.field.told[-1] == ("symbol", 0xFF0D, 0)


def test_a_daemon_that_does_not_answer_costs_half_a_second_once(desk):
    desk.press("a", now=1.0)
    desk.press("b", now=1.1)
    desk.exchange.check(1.0 + LIMIT * 0.9)
    assert desk.field.told == []
    desk.exchange.check(1.0 + LIMIT * 1.01)
    assert desk.field.words == "ab"
    desk.press("c", now=2.0)
    assert len(desk.daemon.asked) == 3  # a, b and the end of the reset; c goes its normal way
    assert desk.exchange.type(Key(67, 46, PRESS, 0), (99, 38, 0), 2.0) is False


def test_what_is_said_late_is_not_listened_to(desk):
    desk.hear(Composed(Composition("녕", 1, (), True)))
    desk.press("a", now=1.0)
    desk.exchange.check(1.0 + LIMIT * 1.01)
    assert desk.field.words == "녕a"
    desk.hear(Committed("녕"), Composed(Composition("ㅁ", 1)), Answered(1, True))
    desk.hear(Committed("ㅁ"))  # on its reset
    assert desk.field.words == "녕a" and desk.exchange.composition == NOTHING
    desk.hear(Answered(2, False))
    desk.press("b", now=2.0)
    desk.hear(Committed("ㅠ"), Answered(3, True))
    assert desk.field.words == "녕aㅠ"


def test_a_long_queue_that_moves_is_no_hang(desk):
    for letter in "abcdef":
        desk.press(letter, now=0.0)
    for number in range(1, 7):
        now = number * LIMIT * 0.9
        desk.exchange.check(now)
        desk.hear(Answered(number, True), now=now)
    assert desk.field.told == [] and not desk.exchange.gives_up(now)


def test_it_gives_up_after_some_hangs_in_a_row(desk):
    for hang in range(MOST_HANGS):
        now = hang * 10.0
        assert not desk.exchange.gives_up(now)
        desk.press("a", now=now)
        desk.exchange.check(now + LIMIT * 1.01)
        for number in desk.daemon.asked:
            desk.hear(Answered(number, False), now=now + 1)
    assert desk.exchange.gives_up(now) and desk.field.words == "a" * MOST_HANGS


def test_it_gives_up_where_nothing_is_said_any_more(desk):
    desk.press("a", now=1.0)
    desk.exchange.check(2.0)
    assert not desk.exchange.gives_up(2.0 + PATIENCE * 0.9)
    assert desk.exchange.gives_up(2.0 + PATIENCE * 1.1)


def test_a_daemon_that_dies_leaves_what_was_composed_and_typed(desk):
    desk.hear(Composed(Composition("ni'hao", 6)))
    desk.press("a")
    desk.press("b")
    desk.hear(Lost("it has ended"))
    assert desk.field.words == "ni'haoab" and desk.exchange.composition == NOTHING
    assert desk.daemon.closed and not desk.exchange.sends_keys
    assert desk.exchange.type(Key(67, 46, PRESS, 0), None, 0.0) is False  # as without it


def test_a_click_keeps_what_the_input_method_wants_kept(desk):
    desk.hear(Composed(Composition("녕", 1, (), True)))
    desk.exchange.leave()
    assert desk.field.told == ["녕", "|"] and "Reset" in desk.daemon.members()
    desk.hear(Committed("녕"))
    assert desk.field.words == "녕|"


def test_a_click_drops_what_it_wants_dropped(desk):
    desk.hear(Composed(Composition("ni", 2)))
    desk.exchange.leave()
    assert desk.field.told == [] and desk.exchange.composition == NOTHING


def test_a_click_waits_for_the_keys_before_it(desk):
    clicks = []
    desk.exchange.after_keys(lambda: clicks.append(desk.field.words))
    desk.press("a")
    desk.exchange.after_keys(lambda: clicks.append(desk.field.words))
    assert clicks == [""]
    desk.hear(Answered(1, False))
    assert clicks == ["", "a"]


def test_a_composition_can_be_hidden_and_shown(desk):
    one = Composition("녕", 1)
    desk.hear(Composed(one), ShowsComposition(False))
    assert desk.exchange.composition == NOTHING
    desk.hear(ShowsComposition(True))
    assert desk.exchange.composition == one


def test_focus_and_place_are_told_when_they_change(desk):
    desk.exchange.place((1, 2, 1, 20))
    desk.exchange.place((1, 2, 1, 20))
    desk.exchange.focus(False)
    desk.exchange.focus(False)
    assert desk.daemon.members() == ["FocusIn", "SetCursorLocation", "FocusOut"]
    again = Calls()
    desk.exchange.focus(True)
    desk.exchange.connect(again)
    assert again.members() == ["FocusIn", "SetCursorLocation"]
