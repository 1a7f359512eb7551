"""The panel of weight modes and the two runs, used through ImGui's input queue."""

import pytest
from imgui_bundle import imgui

from llm_lite.core.messages import (
    AnalyzeTensors,
    Cancel,
    CompareRuns,
    DropVariant,
    KeepVariant,
    LoadModel,
    MeasureDivergence,
    Reconfigure,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.model import SetLanguage
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization import divergence, measurements
from llm_lite.desktop.features.quantization import view as quant_modes
from llm_lite.desktop.features.quantization.model import SetQuantization
from llm_lite.desktop.features.quantization.state import RunAnswer, RunComparison, RunToken
from llm_lite.desktop.widgets import controls
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.engine.tasks import OTHER, PARTING, SAID, TENSORS, report

REPORT = report(replace(EXECUTOR, mode="int4"), replace(EXECUTOR, mode="fp32"))


@pytest.fixture
def panel(headless):
    """The Quantization view of a loaded model, with a scripted engine behind it."""

    def make(size=(1280, 720), delay=0.0, model=MODEL):
        one, engine = headless(AppState(), size=size), ScriptedEngine(delay, model=model)
        one.program.start(engine)
        engine.submit(LoadModel(None))
        one.driver.wait("the model", lambda s: s.model is not None)
        engine.source = None
        one.driver.click("tab.quantization")
        return one, engine

    return make


def last(engine, kind):
    return [command for command in engine.commands if isinstance(command, kind)][-1]


def at_rest(state):
    return state.quantization.work is None


def choose(one, **changes):
    one.program.do(SetQuantization(replace(one.state.quantization.choices, **changes)))
    one.driver.frames(2)


def inside(one, name, place):
    """Whether all of `name` is in sight in `place`."""
    x0, y0, x1, y1 = one.driver.rect(name)
    left, top, right, bottom = one.driver.rect(place)
    return left <= x0 < x1 <= right and top <= y0 < y1 <= bottom


def test_all_modes_and_both_ways_to_compare_are_in_sight_on_a_small_screen(panel):
    one, _ = panel()
    for mode in ("as-stored", "fp32", "fp16", "int8", "int4"):
        assert inside(one, f"quantization.mode.{mode}", "view.quantization")
    assert inside(one, "quantization.activations.a8", "view.quantization")
    for name in ("compare", "measure"):
        assert inside(one, f"quantization.{name}", "view.quantization")


def test_a_click_switches_and_a_measurement_says_which_to_choose(panel):
    one, engine = panel()
    one.driver.click("quantization.mode.int8")
    assert last(engine, Reconfigure).options.mode == "int8"
    one.driver.wait("the other mode", lambda s: s.executor.mode == "int8")
    one.driver.click("quantization.measure")
    one.driver.wait("the speeds", lambda s: s.quantization.speeds is not None)
    assert one.state.quantization.speeds.rows[2].mode == "int4"


def test_a_mode_is_kept_on_disk(panel):
    one, engine = panel()
    assert inside(one, "quantization.keep", "view.quantization")
    one.driver.click("quantization.keep")
    assert not [c for c in engine.commands if isinstance(c, KeepVariant)], "the file is on disk"
    one.driver.click("quantization.mode.int4")
    one.driver.wait("int4", lambda s: s.executor.mode == "int4")
    one.driver.click("quantization.keep")
    one.driver.wait("the variant", lambda s: "int4" in s.model.kept)
    assert last(engine, KeepVariant).mode == "int4"
    assert "/variants/model-int4" in one.state.notices[-1].text
    one.driver.wait("its end", at_rest)
    one.driver.click("quantization.keep")
    x0, _, x1, _ = one.driver.rect("quantization.kept")  # where it is kept
    assert 0 < x0 < x1 < imgui.get_main_viewport().size.x, "all of it in the window"
    one.driver.press(imgui.Key.escape)
    assert "int4" in one.state.model.kept
    one.driver.click("quantization.keep")
    one.driver.click("quantization.drop")
    one.driver.wait("it to be gone", lambda s: "int4" not in s.model.kept)
    assert last(engine, DropVariant).mode == "int4"
    assert "no longer kept" in one.state.notices[-1].text
    assert not one.driver.shows("quantization.kept")
    assert len([c for c in engine.commands if isinstance(c, KeepVariant)]) == 1


def test_runs_from_the_prompt_to_the_mode_that_is_kept(panel):
    one, engine = panel()
    one.driver.click("quantization.compare")
    one.driver.frames(4)
    choices = one.state.quantization.choices
    assert choices.runs[0].mode == "as-stored" and choices.runs[1].mode == "int4"
    one.driver.click("runs.prompt")
    one.driver.type("Tell me a story.")
    one.driver.click("runs.start")
    one.driver.wait("both answers", at_rest)
    command = last(engine, CompareRuns)
    assert command.messages[-1].content == "Tell me a story."
    assert command.sampling.temperature == 0.0 and command.sampling.seed is not None
    held = one.state.quantization.comparison
    assert [answer.text for answer in held.answers] == [" ".join(SAID), " ".join(OTHER)]
    assert held.parting == PARTING and len(held.forced) == len(SAID)
    one.driver.frames(3)
    for run in "ab":
        assert one.driver.shows(f"runs.{run}.token.{PARTING}")
    one.driver.click("runs.keep.b")
    assert last(engine, Reconfigure).options.mode == "int4"
    assert one.state.layouts.name == "inspect"


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080), (3840, 2160)])
def test_strip_and_tokens_point_at_the_same(panel, size):
    one, _ = panel(size)
    one.driver.click("quantization.compare")
    one.driver.frames(4)
    choose(one, prompt="Tell me a story.")
    one.driver.click("runs.start")
    one.driver.wait("both answers", at_rest)
    one.driver.frames(3)
    assert inside(one, "runs.strip", "view.runs")
    for name in (f"runs.bar.{PARTING}", f"runs.a.token.{PARTING}"):
        one.driver.point(name)
        one.driver.frames(2)
        assert one.ui.local(divergence.PointedToken).number == PARTING
    one.driver.leave()
    one.driver.frames(2)
    assert one.ui.local(divergence.PointedToken).number is None


def test_a_run_has_a_type_of_cache(panel):
    one, _ = panel()
    one.driver.click("quantization.compare")
    one.driver.frames(4)
    one.driver.click("runs.b.cache")
    one.driver.click("runs.b.cache.int8")
    runs = one.state.quantization.choices.runs
    assert [(run.keys, run.values) for run in runs] == [("fp16", "fp16"), ("int8", "int8")]


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_longest_choices_of_a_run_are_not_cut(panel, monkeypatch, language):
    one, _ = panel()
    one.program.do(SetLanguage(language))
    one.driver.click("quantization.compare")
    one.driver.frames(4)
    longest = replace(one.state.options, mode="as-stored", keys="fp16", backend="numpy")
    choose(one, runs=(longest, replace(longest, activations="auto")))
    shown = []
    fit = controls.fit
    monkeypatch.setattr(
        controls, "fit", lambda words, room: shown.append((words, fit(words, room))) or shown[-1][1]
    )
    one.driver.frames(1)
    assert {"as-stored", "fp16", "NumPy"} <= {words for words, _ in shown}
    assert [words for words, drawn in shown if drawn != words] == []


def test_a_comparison_can_be_stopped(panel):
    one, engine = panel(delay=0.05)
    one.driver.click("quantization.compare")
    one.driver.frames(4)
    choose(one, prompt="Tell me a story.")
    one.driver.click("runs.start")
    one.driver.wait("a token", lambda s: bool(s.quantization.comparison.answers[0].tokens))
    one.driver.click("runs.start")
    assert isinstance(engine.commands[-1], Cancel)
    one.driver.wait("its end", at_rest)
    assert not one.state.quantization.problem("runs"), "a person knows what was stopped"
    assert len(one.state.quantization.comparison.answers[0].tokens) < len(SAID)


def test_reports_stand_beside_each_other(panel):
    one, engine = panel()
    one.driver.click("quantization.page.report")
    for mode in ("int8", "int4"):
        choose(one, tested=mode, reference="fp32")
        one.driver.click("report.run")
        one.driver.wait("the report", at_rest)
    command = last(engine, MeasureDivergence)
    assert (command.tested.mode, command.reference.mode) == ("int4", "fp32")
    assert command.reference.activations == "a32"
    assert [r.tested.mode for r in one.state.quantization.reports] == ["int4", "int8"]
    one.driver.frames(3)
    _, top, _, bottom = one.driver.rect("report.table")
    assert bottom - top > 15 * one.ui.theme.size("small"), "every row is there"
    one.driver.click("report.forget")
    assert one.state.quantization.reports == ()


def test_the_table_of_tensors(panel):
    one, engine = panel()
    one.driver.click("quantization.page.tensors")
    one.driver.click("tensors.run")
    one.driver.wait("the tensors", at_rest)
    assert last(engine, AnalyzeTensors).mode == "int4"
    one.driver.frames(2)
    assert one.driver.shows("tensors.table")
    words = measurements.tensors_summary(one.state.quantization.tensors)
    assert "least exact is blk.0.ffn_up with 12.5 dB" in words
    weights = 49152 * 576 + 576 + 1536 * 576
    bits = (4.5 * (weights - 576) + 32 * 576) / weights
    assert f"{bits:.2f} bits a weight" in words
    exact = replace(one.state.quantization.tensors, rows=TENSORS[1:2])
    assert "exact" in measurements.tensors_summary(exact)


def test_a_file_that_was_quantized_before_is_told(panel):
    assert "Q4_1, Q8_0" in measurements.requantized_warning(MODEL)
    assert measurements.requantized_warning(replace(MODEL, block_formats=())) == ""
    assert measurements.requantized_warning(None) == ""


CONVERSION = "12 tensors of type iq2_xs are multiplied as int8"


def test_what_is_not_multiplied_as_it_is_stored_is_told(panel):
    one, _ = panel()
    assert not one.driver.shows("quantization.conversion")
    one, _ = panel(model=replace(MODEL, conversion=CONVERSION))
    assert one.driver.shows("quantization.conversion")


def test_words_on_the_mode_as_stored():
    mixed = replace(MODEL, conversion=CONVERSION)
    assert "nothing is lost" in quant_modes.about(MODEL, "as-stored")
    assert quant_modes.about(mixed, "as-stored") == f"The file's own blocks, but {CONVERSION}."
    assert quant_modes.about(mixed, "int4") == quant_modes.about(MODEL, "int4")
    assert "without copying" in quant_modes.place(MODEL, "as-stored")
    assert "made in memory" in quant_modes.place(mixed, "as-stored")


def test_cells_of_a_report():
    assert len(measurements.cells(REPORT)) == len(measurements.ROWS)
    row = dict(
        zip([name for name, _ in measurements.ROWS], measurements.cells(REPORT), strict=True)
    )
    assert row["Perplexity"] == "21.600 ± 0.50"
    assert row["KL mean"] == "0.08 ± 0.0016"
    assert row["Same likeliest"] == "92.00 %"


def tokens(*ids):
    return tuple(RunToken(number, "x", 0.5) for number in ids)


def test_what_is_said_of_two_answers():
    same = RunComparison("p", (), (RunAnswer(tokens=tokens(1, 2)), RunAnswer(tokens=tokens(1))))
    assert same.parting is None and divergence.summary(same) == "the same so far"
    ended = replace(same.answers[1], stop_reason="end")
    assert same.with_answer(1, ended).parting == 1, "it ended there, the other did not"
    other = same.with_answer(1, RunAnswer(tokens=tokens(1, 3)))
    assert divergence.summary(other) == "diverge at token 2"


def test_scales_of_the_strips():
    assert divergence.share_of(0.0) == 0.0 == divergence.share_of(1e-6)
    assert divergence.share_of(100.0) == 1.0
    assert divergence.share_of(10**-1.5) == pytest.approx(0.5)
    assert divergence.numbers(0, 1.0) == [] and divergence.numbers(23, 8.0) == [1, 10, 20]
    assert divergence.span_of([]) == 0.01
    assert divergence.span_of([0.02, -0.3]) == 0.5
    assert divergence.nats(0.0) == "0" and divergence.nats(3e-5) == "3e-5"


def test_a_tip_has_room_for_its_words(panel, monkeypatch):
    """Five tokens of each run, in columns of equal width."""
    drawn, draw_row = [], divergence._draw_row

    def watched(*arguments):
        drawn.append(imgui.get_content_region_avail().x)
        draw_row(*arguments)

    monkeypatch.setattr(divergence, "_draw_row", watched)

    one, _ = panel()
    one.driver.click("quantization.compare")
    one.driver.frames(4)
    choose(one, prompt="Tell me a story.")
    one.driver.click("runs.start")
    one.driver.wait("both answers", at_rest)
    one.driver.point(f"runs.bar.{PARTING}")
    drawn.clear()
    one.driver.frames(3)
    assert len(drawn) == 30 and min(drawn) > one.ui.u(40)


def test_a_mode_that_rounds_twice_says_so():
    model = replace(MODEL, rounded_again={"int4": 0.8})
    said = quant_modes.again(model, "int4")
    assert said.startswith("80% of the weights have about as few bits in the file as int4 has")
    assert said in quant_modes.about(model, "int4")
    measured = quant_modes.again(replace(model, again_error={"int4": 0.0731}), "int4")
    assert "changes them by 7.3%" in measured
    assert quant_modes.again(model, "int8") == ""
