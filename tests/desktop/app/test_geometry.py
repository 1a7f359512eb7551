"""Rules of place: nothing is covered, nothing jumps, a popover stands by what opened it."""

from itertools import combinations

import pytest
from imgui_bundle import imgui

from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import Generate, GenerationStats
from llm_lite.core.records import replace
from llm_lite.desktop.features.program import status_bar
from llm_lite.desktop.features.program.rail import PANELS, entries
from llm_lite.desktop.features.program.state import Load, Message, Notice, Running
from llm_lite.desktop.widgets.theme import DARK, LIGHT, vec
from tests.desktop.headless import READY
from tests.desktop.widgets.test_theme_contrast import contrast
from tools.tour.input_driver import AWAY

OPENERS = [(panel.opener, panel.name) for panel in PANELS] + [("status.executor", "executor")]
SCREENS = [((960, 540), 13), ((960, 540), 15), ((1280, 720), 26), ((1440, 900), 15)]
SMALLEST = ((960, 540), 26)
WHAT_A_RUN_IS = ("mode", "activations", "cache", "backend")
STATS = GenerationStats(9, 2, 170, 100.0, 50.0, 40.0)
TALK = (
    Message("user", "Why?"),
    Message("assistant", "So.\n\n" * 40, stats=STATS, stop_reason="end"),
    Message("user", "And then?"),
    Message("assistant", "So.\n\n" * 40, stats=STATS, stop_reason="end"),
)
TALKING = replace(READY, tree=ConversationTree(TALK))
NOTICES = (
    Notice(1, "info", "Undone: a fork.", 1e12, undo=True),
    Notice(2, "warning", "The connection was lost. " * 5, 1e12),
)


def overlap(one, other):
    """Of two rectangles, in pixels of width and height; touching is none."""
    x = min(one[2], other[2]) - max(one[0], other[0])
    y = min(one[3], other[3]) - max(one[1], other[1])
    return x > 0.5 and y > 0.5


def gap(one, other):
    """The distance of two rectangles, in pixels."""
    x = max(one[0], other[0]) - min(one[2], other[2])
    y = max(one[1], other[1]) - min(one[3], other[3])
    return max(x, y, 0.0)


def look(one, **changes):
    one.program.state = replace(one.program.state, **changes)
    one.driver.frames(4)


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize(("size", "font"), SCREENS)
def test_popovers_stand_by_what_opened_them(headless, size, font, language):
    """In no frame after the click over the status bar, or out of the window."""
    one = headless(replace(TALKING, font_size=font, language=language), size=size)
    bottom = size[1] - one.ui.status_height
    for opener, name in OPENERS:
        one.driver.click(opener)
        place = one.driver.rect(opener)
        for _ in range(6):
            one.driver.frames(1)
            x0, y0, x1, y1 = one.driver.rect(name)
            assert x0 >= 0 and x1 <= size[0] and y0 >= 0 and y1 <= bottom, (name, y1, bottom)
            assert gap(place, (x0, y0, x1, y1)) <= one.ui.u(6), name
            assert not overlap(place, (x0, y0, x1, y1)), name
        one.driver.press(imgui.Key.escape)
        one.driver.frames(2)


def test_a_popover_that_grows_stays_inside(headless):
    one = headless(TALKING, size=(1280, 620))
    one.driver.click("rail.sampler")
    bottom = 620 - one.ui.status_height
    for name in ("filters", "penalties"):
        one.driver.click(f"sampler.{name}")
        for _ in range(5):
            one.driver.frames(1)
            assert one.driver.rect("sampler")[3] <= bottom


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("font", [13, 15, 20, 26])
def test_icons_of_the_rail_have_their_whole_names(headless, font, language):
    one = headless(replace(READY, font_size=font, language=language), size=(2560, 1440))
    assert one.ui.names_rail
    listed = list(entries(one.state, one.ui))
    assert len({entry.label for entry in listed}) == len({e.icon for e in listed}) == len(listed)
    for entry in listed:
        x0, _, x1, _ = one.driver.rect(f"rail.{entry.name}")
        imgui.push_font(one.ui.fonts["regular"], one.ui.theme.size("caption"))
        assert imgui.calc_text_size(entry.label).x <= x1 - x0, entry.label
        imgui.pop_font()


@pytest.mark.parametrize(("size", "font"), [*SCREENS, SMALLEST])
@pytest.mark.parametrize("talk", [False, True])
def test_nothing_in_the_header_is_covered_and_it_never_moves(headless, size, font, talk):
    named = replace(READY.model, name="SmolLM2 135M Instruct")
    state = replace(TALKING if talk else READY, font_size=font, model=named)
    one = headless(state, size=size)
    starts, seen = set(), set()
    load = Load("/models/other.gguf", "preparing the weights", 0.4)
    for change in (
        {"load": None},
        {"load": load},
        {"load": replace(load, stage="a stage whose name is as long as a whole sentence of words")},
    ):
        look(one, **change)
        parts = {
            name: rect
            for name, rect in one.driver.rects.items()
            if name.startswith(("layout.", "chat.model", "chat.loading", "chat.stage"))
            or name in ("chat.cancel_load", "chat.map", "chat.xray")
        }
        if not talk:  # a load is told in the middle of an empty conversation
            parts = {n: r for n, r in parts.items() if "load" not in n}
        seen |= set(parts)
        for (name, rect), (other, place) in combinations(parts.items(), 2):
            assert not overlap(rect, place), (name, other)
        _, top, _, _ = one.driver.rect("layout.read")
        starts.add((one.driver.rect("chat.model")[1], top))
        if talk:
            starts.add(one.driver.rect("chat.messages")[1])
    assert len(starts) == (2 if talk else 1)
    assert not talk or "chat.loading" in seen


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize(("size", "font"), [*SCREENS, SMALLEST])
def test_choices_of_two_runs_show_their_values(headless, size, font, language):
    """Whole and inside their panel, on one line, on two, or one run below the other."""
    one = headless(replace(TALKING, font_size=font, language=language), size=size)
    one.driver.click("layout.compare")
    one.driver.frames(4)
    names = [f"runs.{run}.{what}" for run in "ab" for what in WHAT_A_RUN_IS]
    parts = {name: one.driver.rect(name) for name in [*names, "runs.close", "layout.inspector"]}
    for (name, rect), (other, place) in combinations(parts.items(), 2):
        assert not overlap(rect, place), (name, other)
    with one.ui.font(style="small"):
        least = imgui.calc_text_size("fp16 >").x
    assert all(parts[name][2] - parts[name][0] >= least for name in names)
    assert max(rect[2] for rect in parts.values()) <= size[0]


def test_figures_of_an_answer_stay_where_they_are(headless):
    """Under the pointer, and while the next answer is written."""
    short = tuple(replace(message, text="So.") for message in TALK)
    one = headless(replace(READY, tree=ConversationTree(short)))
    places = []
    for pointer in (AWAY, "message.1", "message.3"):
        if pointer == AWAY:
            one.driver.leave()
        else:
            one.driver.point(pointer)
        places.append(one.driver.rect("message.1.stats"))
    look(one, running=Running(Generate(()), 0.0))
    places.append(one.driver.rect("message.1.stats"))
    assert len(set(places)) == 1


def test_the_way_to_the_end_covers_no_text(headless):
    one = headless(TALKING)
    assert not one.driver.shows("chat.jump")
    one.driver.point("view.chat")
    one.driver.wheel(6)
    one.driver.frames(2)
    assert not overlap(one.driver.rect("chat.jump"), one.driver.rect("chat.messages"))
    below = one.driver.rect("chat.input")
    assert not overlap(one.driver.rect("chat.jump"), below)
    one.driver.click("chat.jump")
    one.driver.frames(4)
    assert not one.driver.shows("chat.jump")
    assert one.driver.rect("chat.input") == below


@pytest.mark.parametrize(("size", "font"), SCREENS[1:])
def test_notices_cover_nothing(headless, size, font):
    one = headless(replace(TALKING, font_size=font, notices=NOTICES), size=size)
    one.driver.frames(4)
    covered = ["chat.messages", "chat.input", "chat.send", "chat.model", "status.executor"]
    covered += [f"view.{name}" for name in ("attention", "performance")]
    for notice in NOTICES[::-1]:  # an older one waits where the newest takes much of the window
        if notice is NOTICES[0] and font * 48 > size[1]:
            break
        rect = one.driver.rect(f"notice.{notice.id}")
        assert rect[0] >= one.ui.rail_width and rect[2] <= size[0]
        for name in covered:
            assert not overlap(rect, one.driver.rect(name)), (notice.id, name)
    look(one, notices=())
    assert one.driver.rect("chat.messages")[3] > rect[1]


def test_notices_of_a_page_stand_below_it(headless):
    one = headless(replace(READY, notices=NOTICES))
    one.driver.click("rail.library")
    one.driver.frames(3)
    host = imgui.internal.find_window_by_name("##host")
    for notice in NOTICES:
        _, top, _, bottom = one.driver.rect(f"notice.{notice.id}")
        assert host.pos.y + host.size.y <= top
        assert bottom <= one.driver.rect("status.executor")[1]


def test_the_tab_in_front_has_a_mark_that_can_be_seen(headless):
    headless()
    style = imgui.get_style()
    assert style.tab_bar_overline_size >= 2
    for slot in ("tab_selected_overline", "tab_dimmed_selected_overline"):
        shown = style.color_(getattr(imgui.Col_, slot))
        assert shown == vec(LIGHT.accent) or shown == vec(DARK.accent)
    for palette in (DARK, LIGHT):
        assert contrast(palette.accent, palette.sunken) >= 3


def test_the_status_bar_names_the_format_and_never_a_loss(headless):
    lost = replace(STATS, drafted=90, accepted=80, saved_ms=-1800.0)
    talk = (*TALK[:-1], replace(TALK[-1], stats=lost))
    one = headless(replace(TALKING, tree=ConversationTree(talk)))
    assert "Q4_1" in status_bar._executor_label(one.state)[0]
    assert "a8" not in status_bar._executor_label(one.state)[0]
    shown = " ".join(words for _, words, _ in status_bar._measures(one.state))
    assert "lost" not in shown and "Drafts" not in shown
    hints = " ".join(hint for *_, hint in status_bar._measures(one.state))
    assert "Drafts: 89% of 90 tokens accepted, 1.8 s lost." in hints
    int8 = replace(one.state, executor=replace(one.state.executor, mode="int8"))
    assert status_bar.weights_format(int8) == "int8"
    assert status_bar.weights_format(replace(int8, model=None, executor=None)) == ""


@pytest.mark.parametrize("language", ["en", "ko"])
def test_names_of_tabs_are_never_cut(headless, language):
    """Those without room are scrolled to."""
    one = headless(replace(READY, font_size=26, language=language), size=(1280, 720))
    imgui.push_font(one.ui.fonts["regular"], one.ui.theme.text)
    for view, title in (("attention", "Attention"), ("lens", "Lens")):
        x0, _, x1, _ = one.driver.rect(f"tab.{view}")
        assert language != "en" or x1 - x0 >= imgui.calc_text_size(title).x
    imgui.pop_font()
    one.driver.click("tab.attention")
    assert one.driver.shows("view.attention")
