"""Text selected in the conversation by mouse, keys and menu, and what of it is copied."""

import pytest
from imgui_bundle import imgui

from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import Thinking
from llm_lite.core.records import replace
from llm_lite.core.text.thinking import Split
from llm_lite.desktop.features.chat.state import Thought
from llm_lite.desktop.features.program.state import Message
from llm_lite.desktop.features.selection.selection import Selected, selection
from llm_lite.desktop.widgets.theme import DARK, LIGHT
from tests.desktop.headless import READY

KEY = imgui.Key
ANSWER = """Two **bold words** and `code`.

- first item
- second item
  1. inner

| a | b |
|---|---|
| one | two |

```python
def f(x):
    return x
```

The end of [a link](https://example.com/a)."""


def talk(answer=ANSWER, question="What is the question?", **more):
    messages = (Message("user", question), Message("assistant", answer, stop_reason="end", **more))
    return replace(READY, tree=ConversationTree(messages))


def move(one, x, y):
    imgui.get_io().add_mouse_pos_event(x, y)
    one.driver.frames(1)


def button(one, down, which=0):
    imgui.get_io().add_mouse_button_event(which, down)
    one.driver.frames(1)


def drag(one, start, end, *between):
    move(one, *start)
    button(one, True)
    for spot in (*between, end):
        move(one, *spot)
        one.driver.frames(1)
    button(one, False)
    one.driver.frames(2)


def clicks(one, spot, count, *keys):
    io = imgui.get_io()
    move(one, *spot)
    for key in keys:
        io.add_key_event(key, True)
    for _ in range(count):
        button(one, True)
        button(one, False)
    for key in keys:
        io.add_key_event(key, False)
    one.driver.frames(2)


def copied(one, *keys):
    imgui.set_clipboard_text("")
    one.driver.press(*(keys or (KEY.mod_ctrl, KEY.c)))
    return imgui.get_clipboard_text()


def start(one, name="message.1", down=0.0):
    """The first letter of a message."""
    x0, y0, _, _ = one.driver.rect(name)
    label = one.ui.theme.size("small") + one.ui.u(2)
    return x0 + 1, y0 + label + one.ui.theme.line / 2 + down


def test_a_drag_selects_letters_and_a_click_clears(headless):
    one = headless(talk("abcdefgh and more"))
    x, y = start(one)
    drag(one, (x, y), (x + 20, y))
    words = copied(one)
    assert words and "abcdefgh".startswith(words)
    clicks(one, (x + 300, y + 200), 1)
    assert copied(one) == ""
    drag(one, (x, y), (x + 20, y))
    one.driver.click("tab.attention")
    assert one.ui.local(Selected).selection is None
    drag(one, (x, y), (x + 20, y))
    one.driver.press(KEY.escape)
    assert one.ui.local(Selected).selection is None


def test_words_and_paragraphs_by_clicks(headless):
    one = headless(talk("안녕하세요 하늘이 파랗습니다.\n\nnext one"))
    x, y = start(one)
    clicks(one, (x + 20, y), 2)
    assert copied(one) == "안녕하세요"
    imgui.get_io().delta_time = 1.0  # no triple click yet
    one.driver.frames(2)
    imgui.get_io().delta_time = 1 / 60
    clicks(one, (x + 20, y), 3)
    assert copied(one) == "안녕하세요 하늘이 파랗습니다."


def test_shift_extends_by_click_letter_and_word(headless):
    one = headless(talk("one two three four"))
    x, y = start(one)
    clicks(one, (x + 4, y), 2)
    assert copied(one) == "one"
    one.driver.press(KEY.mod_shift, KEY.right_arrow)
    assert copied(one) == "one "
    one.driver.press(KEY.mod_ctrl, KEY.mod_shift, KEY.right_arrow)
    assert copied(one) == "one two"
    one.driver.press(KEY.mod_shift, KEY.left_arrow)
    assert copied(one) == "one tw"
    clicks(one, (x + 300, y), 1, KEY.mod_shift)
    assert copied(one) == "one two three four"


def test_shift_and_arrows_go_from_line_to_line(headless):
    one = headless(talk("```\nabc\ndef\nghi\n```"))
    _, laid = one_page(one).blocks[0]
    x, y = start(one)
    y += laid.runs[0].y - one.ui.theme.line / 2 + laid.size / 2
    clicks(one, (x + laid.runs[0].x + 2, y), 2)
    assert copied(one) == "abc"
    one.driver.press(KEY.mod_shift, KEY.down_arrow)
    assert copied(one) == "abc\ndef"
    one.driver.press(KEY.mod_shift, KEY.up_arrow)
    assert copied(one) == "abc"


def test_shift_and_home_and_end_go_to_the_ends_of_the_line_and_of_the_text(headless):
    one = headless(talk("```\nabc def\nghi jkl\n```", question="Why?"))
    _, laid = one_page(one).blocks[0]
    x, y = start(one)
    y += laid.runs[0].y - one.ui.theme.line / 2 + laid.size / 2
    line = laid.runs[1].y - laid.runs[0].y
    clicks(one, (x + laid.runs[1].x + 2, y + line), 2)
    assert copied(one) == "ghi"
    one.driver.press(KEY.mod_shift, KEY.end)
    assert copied(one) == "ghi jkl"
    one.driver.press(KEY.mod_ctrl, KEY.mod_shift, KEY.home)
    assert copied(one) == "Why?\n\nabc def\nghi"
    one.driver.press(KEY.mod_ctrl, KEY.mod_shift, KEY.end)
    assert copied(one) == "ghi jkl"
    clicks(one, (x + laid.runs[0].x + 60, y), 2)
    assert copied(one) == "def"
    one.driver.press(KEY.mod_shift, KEY.home)
    assert copied(one) == "abc def"


def one_page(one):
    from llm_lite.desktop.widgets.markdown.rich_text import rich_text

    x0, _, x1, _ = one.driver.rect("message.1")
    return rich_text(one.ui).page(one.ui, one.state.messages[1].text, x1 - x0)


def test_all_of_a_message_then_of_the_chat(headless):
    one = headless(talk(), size=(1280, 1100))
    move(one, *start(one))
    one.driver.press(KEY.mod_ctrl, KEY.l)  # the input has the keys
    one.driver.press(KEY.mod_ctrl, KEY.a)
    assert one.ui.local(Selected).selection is None
    clicks(one, (start(one)[0] + 300, start(one)[1] + 5), 1)
    one.driver.press(KEY.mod_ctrl, KEY.a)
    assert copied(one) == (
        "Two bold words and code.\n\n• first item\n• second item\n  1. inner\n\n"
        "a\tb\none\ttwo\n\ndef f(x):\n    return x\n\nThe end of a link."
    )
    assert copied(one, KEY.mod_ctrl, KEY.mod_shift, KEY.c) == ANSWER
    one.driver.press(KEY.mod_ctrl, KEY.a)
    assert copied(one).startswith("What is the question?\n\nTwo bold words")


def test_with_nothing_selected_the_last_answer_is_copied(headless):
    one = headless(talk())
    assert copied(one, KEY.mod_ctrl, KEY.mod_shift, KEY.c) == ANSWER


def test_a_drag_from_message_to_message(headless):
    one = headless(talk("An answer."))
    _, y0, x1, y1 = one.driver.rect("message.0")
    x, y = start(one)
    drag(one, (x1 - 60, (y0 + y1) / 2), (x + 20, y))
    words = copied(one)
    first, second = words.split("\n\n")
    assert "What is the question?".endswith(first) and "An answer.".startswith(second)


def test_unfolded_thoughts_are_selected_too(headless):
    split = Split.of(Thinking("think", inside=True)).fed("deep thoughts").ended()
    thought = Thought(split, unfolded=True)
    one = headless(talk("An answer.", thought=thought))
    clicks(one, (start(one)[0] + 500, one.driver.rect("message.1")[3] - 5), 1)
    move(one, *one.driver.rect("message.1.thoughts")[:2])
    one.driver.press(KEY.mod_ctrl, KEY.a)
    assert copied(one) == "deep thoughts\n\nAn answer."


def test_a_selection_stays_while_the_answer_goes_on_and_goes_with_another_one(headless):
    one = headless(talk("one two"))
    clicks(one, (start(one)[0] + 4, start(one)[1]), 2)
    one.program.state = talk("one two three\n\nfour")
    one.driver.frames(2)
    assert copied(one) == "one"
    one.program.state = replace(one.state, font_size=22)
    one.driver.frames(3)
    assert copied(one) == "one"
    one.program.state = talk("another answer")
    one.driver.frames(2)
    assert copied(one) == "" and selection(one.state, one.ui) is None


def test_a_drag_below_the_window_scrolls(headless):
    one = headless(talk("\n\n".join(f"line {n}" for n in range(200))))
    one.driver.point("view.chat")
    one.driver.wheel(500.0)
    one.driver.frames(3)
    x, y = start(one)
    below = (x + 60, 719.0)
    drag(one, (x, y), below, *[below] * 30)
    assert "line 25" in copied(one)


def test_links_and_buttons_keep_their_clicks(headless):
    one = headless(talk())
    one.driver.click("answer.1.link.1")
    assert one.ui.local(Selected).selection is None
    assert one.driver.shows("link.open")


def test_the_menu(headless):
    one = headless(talk("one two"))
    x, y = start(one)
    clicks(one, (x + 4, y), 2)
    button(one, True, 1)
    button(one, False, 1)
    one.driver.frames(2)
    imgui.set_clipboard_text("")
    one.driver.click("selection.menu.copy")
    assert imgui.get_clipboard_text() == "one"
    move(one, x + 4, y)
    button(one, True, 1)
    button(one, False, 1)
    one.driver.frames(2)
    one.driver.click("selection.menu.all")
    assert copied(one) == "one two"


def luminance(color):
    parts = [(color >> shift & 255) / 255 for shift in (16, 8, 0)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("palette", [DARK, LIGHT])
def test_what_is_selected_can_be_read(palette):
    for color in (palette.text, palette.muted, palette.link, *palette.syntax.values()):
        low, high = sorted((luminance(color), luminance(palette.selection)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, f"{color:06x}"
