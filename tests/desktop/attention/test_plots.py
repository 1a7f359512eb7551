"""What figures have in common: named axes, lengths that are the values, a number for a fact."""

import random

import pytest

from llm_lite.core.messages import AttentionRows, GenerationStats, ReadAttentionRows
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention import coloring
from llm_lite.desktop.features.attention.heads import Around, fit_maps
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.attention.rows import HEAD_ROWS
from llm_lite.desktop.features.attention.state import AttentionChoice
from llm_lite.desktop.features.layouts.state import Layouts, Sides, Sizes
from llm_lite.desktop.features.program.model import SetFontSize
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization import step_profile
from llm_lite.desktop.features.quantization.divergence import legend_of
from llm_lite.desktop.widgets.plots import axes, head_grid
from llm_lite.desktop.widgets.plots.axes import Axis, from_zero
from llm_lite.desktop.widgets.plots.head_grid import columns_of
from llm_lite.desktop.widgets.plots.legend import LegendEntry, legend_height
from llm_lite.desktop.widgets.plots.shares import filled
from llm_lite.desktop.widgets.step_flame import WAITING, lay_out
from tests.desktop.attention.test_attention_views import SomeRows
from tests.desktop.cached import with_answer, with_cached
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.engine.tasks import STEP

AROUND = Around(name=17.0, title=28.0, gap=12.0, numbers=(30.0, 15.0), words=(36.0, 96.0))


def test_an_axis_says_its_unit_and_its_scale():
    assert Axis("Time", "ms").title == "Time (ms)"
    assert Axis("Speed", "GFLOP/s", logarithmic=True).title == "Speed (GFLOP/s, logarithmic)"
    assert Axis("Chunk").title == "Chunk"


def test_an_axis_from_zero_holds_the_largest_value():
    assert from_zero("Time", "ms", 450.0).limits == (0.0, pytest.approx(495.0))
    assert from_zero("Time", "ms", 0.0).limits == (0.0, 1.0)


def test_bars_are_as_long_as_their_shares():
    lengths = [filled(share, 200.0) for share in (0.084, 0.175, 0.466)]
    assert lengths == pytest.approx([16.8, 35.0, 93.2])
    assert (filled(0.0, 200.0), filled(1e-6, 200.0), filled(2.0, 200.0)) == (0.0, 1.0, 200.0)


def test_bars_of_all_heads_have_one_scale(headless):
    """What three tokens look at most, by heads whose largest shares are 8.4, 17.5 and 46.6 %."""
    state = with_cached(AppState(model=MODEL, executor=EXECUTOR), ["word"] * 40)
    one = headless(state, size=(1920, 1080))
    one.ui.maps = SomeRows()
    heads = {(0, 0): 0.084, (0, 1): 0.175, (1, 0): 0.466}
    one.program.do(SetAttention(replace(one.state.attention, locked=tuple(heads), large=True)))
    rows = {
        ("decoder", head): AttentionRows(39, "from", (share, share / 2, *[0.0] * 38), "")
        for head, share in heads.items()
    }
    question = ReadAttentionRows(39, "from", "heads")
    one.program.state = with_answer(one.state, HEAD_ROWS, question, rows)
    one.driver.frames(3)
    lengths = {}
    for (layer, head), share in heads.items():
        for number, part in enumerate((share, share / 2)):
            x0, _, x1, _ = one.driver.rect(f"row.{layer}.{head}.{number}.bar")
            lengths[(layer, head, number)] = (x1 - x0) / part
    assert len(lengths) == 6
    assert max(lengths.values()) == pytest.approx(min(lengths.values()), rel=0.01)


def test_a_part_of_a_step_has_one_share():
    """In the tooltip of the flame and in the table below it; all of them are the step."""
    laid = lay_out(STEP)
    (logits,) = (span for span in laid.rows[0] if span.words == "logits")
    (kind,) = (kind for kind in laid.kinds if kind.words == "product logits")
    told = {step_profile.share_words(laid, part.seconds) for part in (logits, kind)}
    assert told == {f"{100 * logits.seconds / STEP.seconds:.1f} %"}
    assert sum(laid.share(kind.seconds) for kind in laid.kinds) == pytest.approx(1.0)
    assert laid.kinds[-1].words == WAITING


def test_a_step_says_why_an_answer_had_another_speed():
    stats = GenerationStats(new_tokens=50, decode_tok_s=92.0, passes=40, accepted=10)
    words = step_profile.beside_answer(replace(STEP, seconds=5.21e-3), stats)
    assert "192 tok/s" in words and "92.0 tok/s" in words
    assert "0.80 steps a token" in words and "10.9 ms from one token to the next" in words
    assert step_profile.beside_answer(replace(STEP, tokens=128), stats) == ""
    assert step_profile.beside_answer(STEP, None) == ""


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("tokens", [5, 20, 60, 400])
def test_a_head_is_never_smaller_in_a_larger_room(count, tokens):
    rng = random.Random(count * 1000 + tokens)
    worded = tokens * 12.0
    for _ in range(200):
        room = (rng.uniform(100, 1500), rng.uniform(100, 1200))
        grown = tuple(pixels + rng.choice([0.0, 1.0, 20.0, 300.0]) for pixels in room)
        small = fit_maps(count, room, AROUND, worded, 40.0)
        large = fit_maps(count, grown, AROUND, worded, 40.0)
        assert large.side >= small.side, (room, grown)
        if small.gutter:
            assert small.side + 1 >= worded and small.gutter >= AROUND.words[0]


def test_heads_stand_so_that_they_are_large():
    def columns(count, *room):
        return fit_maps(count, room, AROUND, 1e9, 40.0).columns

    assert [columns(n, 1600, 900) for n in (1, 2, 3, 4)] == [1, 2, 3, 2]
    assert [columns(n, 1500, 300) for n in (3, 4)] == [3, 4], "a low panel has one row"
    assert columns(4, 400, 1400) == 1 and columns(2, 335, 700) == 1


@pytest.mark.parametrize("heads", [1, 2, 9, 12, 16, 32, 40, 96])
def test_the_heads_of_a_layer_are_on_one_line_or_on_even_ones(heads):
    for room in range(40, 1200, 7):
        laid = columns_of(heads, float(room), 28.0, 18.0)
        assert laid.count * laid.lines >= heads > laid.count * (laid.lines - 1)
        offsets = laid.offsets(heads)
        assert len(offsets) == laid.lines
        last = heads - offsets[-1]
        assert laid.count - last < laid.lines, "no line that is nearly empty"
    assert columns_of(9, 9 * 18.0, 28.0, 18.0).lines == 1


@pytest.mark.parametrize("text", [13, 26])
def test_the_grid_names_its_axes_at_any_text_size(headless, monkeypatch, text):
    drawn = []
    upright = axes.upright_text
    monkeypatch.setattr(
        axes, "upright_text", lambda draw, words, *rest: drawn.append(words) or
        upright(draw, words, *rest)
    )  # fmt: skip
    sides = Sides(sizes=Sizes(list_width=10.0, inspector_width=30.0))
    state = with_cached(AppState(model=MODEL, executor=EXECUTOR), used=40)
    one = headless(
        replace(state, layouts=Layouts("inspect", "inspect", sides, sides, sides)),
        size=(1600, 1000),
    )
    one.ui.maps = SomeRows()
    one.program.do(SetFontSize(text))
    one.driver.click("tab.attention")
    one.driver.click("tab.steer")
    one.driver.frames(3)
    drawn.clear()
    one.driver.frames(1)
    assert drawn == ["Layer", "Layer"]
    for view, first in (("attention", "attention.0.0"), ("steer", "steer.0.0")):
        names, cell = one.driver.rect(f"{view}.names"), one.driver.rect(first)
        assert names[2] <= cell[0] + 1 and names[1] < cell[1]
    assert head_grid.tr("Head") == "Head"


def test_the_scale_of_maps_is_named():
    assert coloring.scale_words(AttentionChoice()) == "Attention weight, logarithmic"
    linear = replace(AttentionChoice(), logarithmic=False)
    assert coloring.scale_words(linear) == "Attention weight, linear"


def test_colours_of_the_strips_are_explained_and_a_legend_takes_the_lines_it_needs(headless):
    one = headless()
    entries = legend_of(one.ui)
    assert len({entry.color for entry in entries}) == len(entries) == 5
    with one.ui.font(style="small"):
        tall = [legend_height(one.ui, entries, room) for room in (2000.0, 300.0, 90.0)]
    assert tall[0] < tall[1] < tall[2]
    assert legend_height(one.ui, [], 100.0) == 0.0
    assert legend_height(one.ui, [LegendEntry(0, "x")], 100.0) == one.ui.theme.size("small")
