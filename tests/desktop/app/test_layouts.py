"""The layouts of the window: what each shows, that its sizes are kept, and older settings."""

import re

import pytest
from imgui_bundle import imgui

from llm_lite.core.records import replace
from llm_lite.desktop.app.layout_text import LAYOUT_VERSION
from llm_lite.desktop.app.settings import parse, remember, restore
from llm_lite.desktop.features.layouts.model import KeepSizes, UseLayout
from llm_lite.desktop.features.layouts.state import Layouts, Sides, Sizes
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization.model import ShowRuns
from llm_lite.desktop.features.registry import VIEWS
from tests.desktop.headless import READY, Headless

KEY = imgui.Key
WIDE = {"size": (1920, 1080)}


def shown(one):
    names = {view.name for view in VIEWS if one.driver.shows(f"view.{view.name}")}
    return names & {"conversations", "chat", "attention", "performance", "runs"}


def width(one, name):
    x0, _, x1, _ = one.driver.rect(f"view.{name}")
    return x1 - x0


def drag(one, x, y, by):
    """A border between two panels."""
    io = imgui.get_io()
    for event in (
        lambda: io.add_mouse_pos_event(x, y),
        lambda: io.add_mouse_button_event(0, True),
        lambda: io.add_mouse_pos_event(x + by / 2, y),
        lambda: io.add_mouse_pos_event(x + by, y),
        lambda: io.add_mouse_button_event(0, False),
    ):
        event()
        one.driver.frames(3)


@pytest.mark.parametrize("size", [(1280, 800), (1920, 1080)])
def test_each_layout_shows_its_panels(headless, size):
    one = headless(size=size)
    panels = {
        "read": {"conversations", "chat"},
        "inspect": {"conversations", "chat", "attention", "performance"},
        "compare": {"chat", "runs"},
    }
    for key, name in ((KEY._1, "read"), (KEY._3, "compare"), (KEY._2, "inspect")):
        one.driver.press(KEY.mod_ctrl, key)
        one.driver.frames(4)
        assert shown(one) == panels[name]
        assert one.driver.shows("chat.input")
    one.driver.click("layout.compare")
    one.driver.frames(4)
    assert shown(one) == panels["compare"]
    assert width(one, "runs") + width(one, "chat") > 0.93 * size[0]
    assert 0.55 < width(one, "runs") / (width(one, "runs") + width(one, "chat")) < 0.68
    one.driver.click("runs.close")
    assert one.state.layouts.name == "inspect"


def test_side_panels_are_hidden_and_shown_in_each_layout_by_itself(headless):
    one = headless(**WIDE)
    one.driver.press(KEY.mod_ctrl, KEY.mod_shift, KEY.b)
    one.driver.frames(2)
    assert shown(one) == {"conversations", "chat"}
    one.driver.press(KEY.mod_ctrl, KEY.b)
    one.driver.press(KEY.mod_ctrl, KEY._1)
    one.driver.frames(2)
    assert shown(one) == {"conversations", "chat"}
    one.driver.click("layout.inspector")
    one.driver.frames(2)
    assert shown(one) == {"conversations", "chat", "attention", "performance"}
    one.driver.press(KEY.mod_ctrl, KEY._2)
    one.driver.frames(2)
    assert shown(one) == {"chat"}


def test_the_tab_in_front_stays_in_front(headless):
    one = headless(**WIDE)
    one.driver.click("tab.lens")
    one.driver.click("tab.steer")
    for key in (KEY._1, KEY._3, KEY._2):
        one.driver.press(KEY.mod_ctrl, key)
        one.driver.frames(4)
    assert one.driver.shows("view.lens") and one.driver.shows("view.steer")
    assert not one.driver.shows("view.attention")


def test_sizes_are_kept_for_each_layout_and_over_a_restart(headless):
    one = headless(**WIDE)
    _, y0, x1, y1 = one.driver.rect("view.conversations")
    first = width(one, "conversations")
    drag(one, x1 + 0.5, (y0 + y1) / 2, 80)
    assert one.did(KeepSizes)
    wider = width(one, "conversations")
    assert wider == pytest.approx(first + 80, abs=4)
    one.driver.press(KEY.mod_ctrl, KEY._1)
    one.driver.frames(4)
    _, y0, x1, y1 = one.driver.rect("view.conversations")
    drag(one, x1 + 0.5, (y0 + y1) / 2, -60)
    narrower = width(one, "conversations")
    assert narrower == pytest.approx(first - 60, abs=4), "of this layout, which had its own"
    one.driver.press(KEY.mod_ctrl, KEY._2)
    one.driver.frames(4)
    assert width(one, "conversations") == pytest.approx(wider, abs=4)
    text = imgui.save_ini_settings_to_memory()
    kept = remember(one.state, Settings(layout=text, layout_version=LAYOUT_VERSION))
    one.close()
    again = Headless(restore(kept, READY), settings=kept, **WIDE)
    again.driver.frames(4)
    assert width(again, "conversations") == pytest.approx(wider, abs=4)
    again.driver.press(KEY.mod_ctrl, KEY._1)
    again.driver.frames(4)
    assert width(again, "conversations") == pytest.approx(narrower, abs=4)
    again.close()
    one.close = lambda: None


def test_a_comparison_leads_back_and_is_not_begun_with():
    state = AppState(layouts=Layouts("read", "read"))
    from llm_lite.desktop.features.program.act import act

    state, _ = act(ShowRuns(True), state, 0.0)
    assert state.layouts.name == "compare"
    kept = remember(state, Settings())
    assert restore(kept, AppState()).layouts.name == "read"
    state, _ = act(ShowRuns(False), state, 0.0)
    assert state.layouts.name == "read"
    assert act(UseLayout("inspect"), state, 0.0)[0].layouts.name == "inspect"


@pytest.fixture(scope="module")
def old_layout():
    """As Dear ImGui wrote it before there were two runs as a view."""
    one = Headless()
    text = imgui.save_ini_settings_to_memory()
    one.close()
    return re.sub(r"\[Window\]\[runs\]\n(?:\w+=.*\n)+", "", text)


def test_a_layout_from_before_runs_were_a_view_keeps_its_places(headless, old_layout):
    assert "[runs]" not in old_layout
    settings = Settings(layout=old_layout, layout_version=LAYOUT_VERSION)
    one = headless(settings=settings)
    one.driver.frames(2)
    before = width(one, "attention")
    one.driver.press(KEY.mod_ctrl, KEY._3)
    one.driver.frames(5)
    assert shown(one) == {"chat", "runs"}
    one.driver.press(KEY.mod_ctrl, KEY._2)
    one.driver.frames(5)
    assert width(one, "attention") == pytest.approx(before, abs=4)


@pytest.mark.parametrize("panel", ["auto", "shown", "hidden"])
def test_what_older_settings_say_of_the_list_is_of_the_layout_they_had(panel):
    problems = []
    settings = parse({"conversations": panel}, Settings(), problems)
    assert restore(settings, AppState()).layouts == Layouts(inspect=Sides(list=panel))
    assert problems == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"read": 5}, {"inspect": {"list": "sideways"}}, {"compare": {"runs_width": 1e9}},
        {"read": {"list_width": "wide"}}, {"layout_name": "upside down"},
        {"inspect": {"upper_share": float("nan")}},
    ],
)  # fmt: skip
def test_wrong_layouts_are_named_and_left_out(wrong):
    problems = []
    settings = parse(wrong, Settings(), problems)
    assert len(problems) == 1 and next(iter(wrong)) in problems[0]
    assert restore(settings, AppState()).layouts == Layouts()


def test_sizes_of_a_screen_hold_on_a_smaller_one(headless):
    """A width that leaves no room for the chat leaves it some all the same."""
    sides = Sides(sizes=Sizes(list_width=200.0, inspector_width=300.0, runs_width=400.0))
    state = replace(READY, layouts=Layouts("inspect", "inspect", sides, sides, sides))
    one = headless(state, size=(1000, 700))
    for key in (KEY._1, KEY._2, KEY._3):
        one.driver.press(KEY.mod_ctrl, key)
        one.driver.frames(5)
        assert width(one, "chat") > 40


def resize(one, width, height=1000):
    imgui.get_io().display_size = imgui.ImVec2(width, height)
    one.driver.frames(5)


def widths(one):
    return [width(one, name) for name in ("conversations", "chat", "attention")]


def test_widths_that_nobody_chose_follow_the_window(headless):
    """As in a window that had this size at first, however it came to it."""
    sides = Sides("shown", "shown")
    state = replace(READY, layouts=Layouts("inspect", "inspect", sides, sides, sides))
    sizes = (960, 1280, 2560)
    fresh = {size: widths(headless(state, size=(size, 1000))) for size in sizes}
    assert fresh[2560][2] > fresh[1280][2] > fresh[960][2] > 200
    one = headless(state, size=(1600, 1000))
    for size in (960, 2560, 1280, 960, 1280, 2560):
        resize(one, size)
        assert widths(one) == pytest.approx(fresh[size], abs=3)


@pytest.mark.parametrize("text", [13, 15, 20])
@pytest.mark.parametrize("size", [960, 1000, 1100, 1280])
def test_the_chat_keeps_its_room(headless, size, text):
    """420 pixels at least, whatever was dragged where the window was large."""
    sides = Sides("shown", "shown", Sizes(list_width=25.0, inspector_width=60.0))
    state = replace(READY, layouts=Layouts("inspect", "inspect", sides, sides, sides))
    one = headless(replace(state, font_size=text), size=(1900, 1000))
    resize(one, size)
    assert width(one, "chat") >= 419
    for name in ("conversations", "attention"):
        assert not one.driver.shows(f"view.{name}") or width(one, name) >= 12 * text - 2
    resize(one, 2560)
    assert width(one, "conversations") == pytest.approx(25 * text, abs=4), "the person's again"
    assert width(one, "attention") == pytest.approx(60 * text, abs=4)


def test_a_drag_is_of_the_border_that_was_dragged(headless):
    one = headless(**WIDE)
    before = widths(one)
    _, y0, x1, y1 = one.driver.rect("view.conversations")
    drag(one, x1 + 0.5, (y0 + y1) / 2, 60)
    (kept,) = one.did(KeepSizes)
    assert kept.sizes.list_width == pytest.approx((before[0] + 60) / 15, abs=0.3)
    assert kept.sizes.inspector_width == 0.0, "which still follows the window"
    resize(one, 1400)
    assert width(one, "conversations") == pytest.approx(before[0] + 60, abs=4)
    assert width(one, "attention") < before[2]


def test_a_wide_list_gives_way_to_the_inspector(headless):
    """In a small window, and in large text: the inspector stays wide enough to be read."""
    sides = Sides("shown", "shown", Sizes(list_width=18.5, inspector_width=38.0))
    state = replace(READY, layouts=Layouts("inspect", "inspect", sides, sides, sides))
    one = headless(replace(state, font_size=15), size=(860, 600))
    one.driver.frames(5)
    assert width(one, "conversations") < 17.5 * 15
    assert width(one, "attention") > 14 * 15
    assert width(one, "chat") > 22 * 15
