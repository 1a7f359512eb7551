"""Remembered layouts: what Dear ImGui writes passes, and what passes does not end the process."""

import random
import re

import pytest
from imgui_bundle import imgui

from llm_lite.desktop.app.layout_text import LAYOUT_VERSION, is_layout
from llm_lite.desktop.app.settings import parse
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.registry import VIEWS
from tests.desktop.headless import Headless

NUMBERS = ("0", "-1", "2147483647", "99999999999999", "0x00000001", "0xFFFFFFFF", "nan", "1e38")
ROOT = "[Docking][Data]\nDockSpace ID=0x00000009 Window=0x00000007 Pos=0,0 Size=100,100"
LEAF = "  DockNode ID=0x0000000{0} Parent=0x00000009 SizeRef=50,100"


@pytest.fixture(scope="module")
def written():
    """What Dear ImGui writes of the default layout after a panel was moved out and tabs changed."""
    one = Headless()
    one.driver.click("tab.log")
    one.driver.click("tab.kv_cache")
    drag(one, "tab.steer", (500, 300))
    one.driver.frames(3)
    text = imgui.save_ini_settings_to_memory()
    one.close()
    return text


def drag(one, name, to):
    one.driver.point(name)
    io = imgui.get_io()
    io.add_mouse_button_event(0, True)
    one.driver.frames(2)
    for share in (0.3, 0.6, 1.0):
        x, y = one.ui.pointer
        io.add_mouse_pos_event(x + (to[0] - x) * share, y + (to[1] - y) * share)
        one.driver.frames(2)
    io.add_mouse_button_event(0, False)
    one.driver.frames(2)


def test_what_dear_imgui_writes_passes(written):
    assert "[Docking]" in written
    assert is_layout(written)
    assert is_layout("")


@pytest.mark.parametrize(
    "text",
    [
        f"{ROOT} Split=X\n{LEAF.format(1)}",
        f"{ROOT} Split=X\n{LEAF.format(1)}\n{LEAF.format(1)}",
        f"{ROOT} Split=Z\n{LEAF.format(1)}\n{LEAF.format(2)}",
        f"{ROOT}\n{LEAF.format(1)}\n{LEAF.format(2)}",
        ROOT.replace("100,100", "0,100"),
        ROOT.replace("100,100", "99999,100"),
        ROOT.replace("ID=0x00000009 ", ""),
        f"[Docking][Data]\n{LEAF.format(1)}",
        "[Window][chat]\nPos=99999,0",
        "[Window][chat]\nPos=nan,0",
        "[Window][chat\n",
        "[Table][0x00000001,9999999]\nRefScale=13",
        "[Table][0x00000001,2]\nColumn 7 Width=10",
        "nonsense",
        "\x00",
    ],
)
def test_what_it_would_not_write_is_refused(text):
    assert not is_layout(text)
    problems = []
    assert parse({"layout": text}, Settings(), problems) == Settings()
    assert len(problems) == 1 and "layout" in problems[0]


def mutated(text, seed):
    rng, lines = random.Random(seed), text.split("\n")
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(lines))
        numbers = list(re.finditer(r"0x[0-9A-F]+|-?\d+", lines[at]))
        match rng.randrange(5):
            case 0:
                lines[at] = ""
            case 1:
                lines.insert(at, rng.choice(lines))
            case 2 if numbers:
                low, high = rng.choice(numbers).span()
                lines[at] = lines[at][:low] + rng.choice(NUMBERS) + lines[at][high:]
            case 3:
                lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)]
            case _:
                other = rng.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
    return "\n".join(lines)


def test_what_passes_is_drawn(written):
    """Without the check some of these end the process by a signal, others by an assertion."""
    texts = [text for seed in range(150) if is_layout(text := mutated(written, seed))]
    assert 20 < len(texts) < 130
    for text in texts:
        one = Headless(settings=Settings(layout=text, layout_version=LAYOUT_VERSION))
        shown = one.driver.shows("rail.library")  # the chat may lie behind another tab
        one.close()
        assert shown


def test_a_layout_from_before_a_view_was_added_has_it_beside_its_like(written):
    """It would float over the others."""
    before = re.sub(r"\[Window\]\[log\]\n(?:\w+=.*\n)+", "", written)
    assert before != written and is_layout(before)
    one = Headless(settings=Settings(layout=before, layout_version=LAYOUT_VERSION))
    windows = {v.name: imgui.internal.find_window_by_name(v.window) for v in VIEWS}
    assert windows["log"].dock_id == windows["performance"].dock_id
    one.close()


def test_a_text_that_is_refused_leaves_the_default_layout(written):
    """As a window wrote it that was destroyed; it comes with the version of today."""
    broken = re.sub(r"(DockSpace.*Size=)\d+,\d+", r"\g<1>4,-13184", written)
    problems = []
    data = {"layout": broken, "layout_version": LAYOUT_VERSION}
    settings = parse(data, Settings(), problems)
    assert settings.layout == "" and len(problems) == 1
    one, fresh = Headless(settings=settings), Headless()
    assert one.ui.rects["tab.attention"] == fresh.ui.rects["tab.attention"]
    fresh.close()
    one.close()
