"""The page of an encoder-decoder: from states, by a person's clicks, and with a real engine."""

from __future__ import annotations

import random

import pytest
from imgui_bundle import imgui

from llm_lite.core.engine.engine import Engine
from llm_lite.core.loading.beside import translator_of
from llm_lite.core.messages import NO_CHANGES, Ended, LoadModel, SetInterventions, Translate
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.attention.rows import ROWS
from llm_lite.desktop.features.chat.model import NewChat
from llm_lite.desktop.features.encoder.reasons import TRANSLATOR_REASONS
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.model import OpenModel, SetOptions
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.steer.model import Steer
from llm_lite.desktop.features.steer.view import effect_is_shown
from llm_lite.desktop.features.translator.model import (
    ChooseBeams,
    ChooseCrossHeads,
    ChooseLongest,
    ChooseTask,
    ClearTarget,
    PointAtToken,
    RestoreTarget,
    SetSource,
    StopTarget,
    TintTarget,
    WriteTarget,
)
from llm_lite.desktop.features.translator.state import CrossHeads, TokenAt
from llm_lite.desktop.features.translator.target import facts
from llm_lite.desktop.widgets import controls
from llm_lite.desktop.widgets.widgets import fit
from tests.changes import gains_in, weighed
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.engine.translating import (
    ENCODER_LAYERS,
    HEADS,
    LAYERS,
    TASK,
    as_translator,
    finished,
    grown,
    source_read,
    whole,
)
from tests.desktop.reports import TRANSLATED, fold_reports
from tests.fixtures.seq2seq import marian, t5
from tests.runners import exact, running
from tests.seq2seq_checks import write_case

READY = AppState(model=as_translator(MODEL), executor=EXECUTOR)
NARROW, WIDE = (900, 600), (1400, 900)


def written(one, source="where is the station", **changes):
    """A scripted engine's target for a source, in the window."""
    one.program.do(WriteTarget(source))
    command = one.state.translating.writing
    *before, _, behind = whole(command)
    events = (*before, finished(command, **changes), behind)
    one.program.state = fold_reports(one.state, *events, now=0.0)
    one.driver.frames(3)


def test_a_person_writes_a_source_and_sends_it(headless):
    one = headless(READY, size=WIDE)
    one.driver.click("translating.source")
    one.driver.type("where is it")
    assert one.state.translating.draft == "where is it"
    one.driver.click("translating.write")
    assert one.state.translating.running and one.done[-1] == WriteTarget("where is it")
    one.driver.frames(2)
    one.driver.click("translating.stop")
    assert one.state.translating.stopping


def test_task_beam_and_length_are_chosen(headless):
    one = headless(READY, size=WIDE)
    for name, choice in (("task", TASK), ("beams", "4"), ("longest", "50")):
        one.driver.click(f"translating.{name}")
        one.driver.frames(2)
        one.driver.click(f"translating.{name}.{choice}")
    chosen = one.state.translating
    assert (chosen.prefix, chosen.beams, chosen.longest) == (TASK, 4, 50)


@pytest.mark.parametrize("font_size", [13.0, 26.0])
@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_choices_are_shown_whole(headless, monkeypatch, size, font_size):
    shown = []
    monkeypatch.setattr(
        controls, "fit", lambda words, room: shown.append(fit(words, room)) or words
    )
    model = replace(as_translator(MODEL, beams=4), context=8192)
    one = headless(replace(READY, model=model, font_size=font_size), size=size)
    one.program.do(ChooseLongest(one.state.model.context - 1))
    one.driver.frames(3)
    assert {"Up to 8,191: the whole context", "Beam of 4 (the model's own)"} <= set(shown)
    left, top, right, low = one.ui.rects["chat.composer"]
    for name in ("beams", "longest", "write"):
        x0, y0, x1, y1 = one.ui.rects[f"translating.{name}"]
        assert left <= x0 and x1 <= right and top <= y0 and y1 <= low, name


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_everything_of_a_target_lies_inside_the_page(headless, size):
    one = headless(READY, size=size)
    one.program.do(ChooseBeams(4))
    one.program.do(ChooseCrossHeads(CrossHeads("head", 1, 2)))
    written(one)
    shown = {name: rect for name, rect in one.ui.rects.items() if name.startswith("translating.")}
    assert {f"translating.{n}" for n in ("by", "layer", "head", "likely", "copy", "facts")} < set(
        shown
    )
    left, _, right, _ = shown["translating.target.tokens"]
    for name, (x0, _, x1, _) in shown.items():
        assert left - 1 <= x0 and x1 <= right + 1, name
    rects = [shown[f"translating.{name}"] for name in ("by", "layer", "head", "likely", "copy")]
    for at, (x0, y0, x1, y1) in enumerate(rects):
        for other in rects[at + 1 :]:
            beside = x1 <= other[0] or other[2] <= x0
            assert beside or y1 <= other[1] or other[3] <= y0, "none lies on another"


def test_a_click_on_a_token_holds_its_row(headless):
    one = headless(READY, size=WIDE)
    one.program.do(SetAttention(one.state.attention.showing("cross")))
    written(one)
    one.driver.click("translating.target.1")
    assert (one.state.attention.part, one.state.attention.row) == ("cross", 2)
    one.driver.click("translating.source.0")
    assert (one.state.attention.part, one.state.attention.row) == ("encoder", 0)
    one.driver.click("translating.target.0")
    assert (one.state.attention.part, one.state.attention.row) == ("cross", 1)
    one.driver.click("translating.target.0")
    assert one.state.attention.row is None
    last = len(one.state.translating.tokens) - 1
    one.driver.click(f"translating.target.{last}")
    assert one.state.attention.row is None, "no step has read the last one"


def test_a_press_shows_another_hypothesis(headless):
    one = headless(READY, size=WIDE)
    one.program.do(ChooseBeams(4))
    written(one)
    one.driver.click("translating.other.2")
    one.driver.frames(2)
    assert one.state.translating.result.text == "another 2"
    assert one.driver.shows("translating.target.1") and not one.driver.shows("translating.target.2")


def test_the_page_is_emptied_by_the_rail_and_brought_back(headless):
    one = headless(READY, size=WIDE)
    written(one)
    one.driver.click("rail.new_chat")
    one.driver.frames(2)
    assert not one.driver.shows("translating.target.tokens")
    one.driver.click("translating.restore")
    one.driver.frames(2)
    assert one.driver.shows("translating.target.tokens")


@pytest.mark.parametrize("panel", ["sampler", "system_prompt", "tools", "serving"])
def test_panels_of_a_chat_say_why_they_are_empty(headless, panel):
    one = headless(READY, size=WIDE)
    one.driver.click(f"rail.{panel}")
    one.driver.frames(2)
    assert panel in TRANSLATOR_REASONS and one.driver.shows(f"encoding.reason.{panel}")


def test_views_of_a_chat_say_why_they_are_empty(headless):
    one = headless(READY, size=WIDE)
    one.driver.click("tab.quantization")
    one.driver.frames(2)
    assert not one.driver.shows("quantization.compare")
    one.driver.click("quantization.page.report")
    one.driver.frames(2)
    assert one.driver.shows("encoding.reason.report")
    assert not one.driver.shows("chat.input") and not one.driver.shows("chat.prompts")
    one.driver.click("layout.compare")
    one.driver.frames(2)
    assert one.driver.shows("encoding.reason.runs") and not one.driver.shows("runs.prompt")


def test_each_part_is_steered(headless):
    one = headless(READY, size=WIDE)
    one.driver.click("tab.steer")
    one.driver.frames(2)
    parts = (("encoder", 2 * LAYERS, ENCODER_LAYERS), ("decoder", 0, LAYERS))
    for part, first, layers in (*parts, ("cross", LAYERS, LAYERS)):
        one.driver.click(f"steer.part.{part}")
        one.driver.frames(2)
        assert f"steer.{layers - 1}.0" in one.ui.rects
        one.driver.click("steer.0.1")
        gains = gains_in(one.state)
        assert len(gains) == 2 * LAYERS + ENCODER_LAYERS and gains[first][1] == 0.0
        one.driver.click("steer.reset")
        assert not one.state.steering.interventions
    one.program.do(SetSource("a"))
    one.driver.frames(2)
    one.driver.click("steer.again")
    assert one.state.translating.running


def test_an_effect_is_shown_of_the_decoders_gains_alone():
    """Those of the encoder change nothing before its next source."""
    off, model = (0.0,) * HEADS, READY.model
    ones = ((1.0,) * HEADS,) * model.gain_rows
    for gains, told in (((off, *ones[1:]), True), ((*ones[:-1], off), False)):
        steering = replace(READY.steering, interventions=weighed(gains, model))
        assert effect_is_shown(replace(READY, steering=steering)) == told


@pytest.mark.parametrize("problem", ["an internal error (TypeError); the log", "no " * 9999])
def test_a_problem_stands_in_the_targets_place_as_one_sentence(headless, problem):
    one = headless(READY, size=NARROW)
    one.program.do(WriteTarget("where is it"))
    writing = one.state.translating.writing
    one.program.state = apply(Ended(problem), one.state, 0.0, writing)
    one.driver.frames(2)
    _, top, _, bottom = one.ui.rects["translating.problem"]
    assert 0 < bottom - top < NARROW[1] / 3


def test_how_a_target_ended_is_told():
    command = Translate("a b")
    assert facts(finished(command, stop_reason="length"))[-1] == "no end within 200 tokens"
    assert facts(finished(command, stop_reason="stopped"))[-1] == "stopped"
    assert facts(finished(command))[-1].startswith("score")


def actions_of(rng):
    """What a person can do on the page, or what the engine can say."""
    side = rng.choice(["source", "target"])
    return rng.choice(
        [
            SetSource(rng.choice(["", "a b", "안녕 " * 90])),
            WriteTarget(rng.choice(["a", "a b c", "x " * 300])),
            ChooseBeams(rng.choice([0, 1, 4])), ChooseLongest(rng.choice([0, 50])),
            ChooseTask(rng.choice(["", TASK])), TintTarget(rng.random() < 0.5),
            PointAtToken(rng.choice([None, TokenAt(side, rng.randrange(9))])),
            ChooseCrossHeads(CrossHeads(rng.choice(["all", "layer", "head"]), 9, 9)),
            SetAttention(READY.attention.showing(rng.choice(["encoder", "decoder", "cross"]))),
            StopTarget(), ClearTarget(), RestoreTarget(), NewChat(), Steer(NO_CHANGES), "events",
        ]
    )  # fmt: skip


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_any_sequence_of_actions_is_drawn(headless, size):
    rng = random.Random(str(size))
    one = headless(READY, size=size)
    one.ui.opened = ""
    for _ in range(60):
        action = actions_of(rng)
        if action == "events":
            known = one.state.translating
            command = known.writing or Translate(known.asked or "a", known.beams)
            events = [source_read(command), grown(command, 2), *whole(command)]
            for event in events[: rng.randrange(len(events) + 1)]:
                of = command if isinstance(event, TRANSLATED) else None
                one.program.state = apply(event, one.state, 0.0, of)
        else:
            one.program.do(action)
        if rng.random() < 0.2:
            one.driver.click(rng.choice(["tab.kv_cache", "tab.steer", "tab.attention"]))
        one.driver.frames(1)
        assert one.driver.shows("translating.source") and imgui.get_draw_data().total_vtx_count
    one.program.do(WriteTarget("a"))
    writing = one.state.translating.writing
    one.program.state = apply(Ended("no " * 99), one.state, 0.0, writing)
    one.driver.frames(2)


@pytest.mark.parametrize(
    ("family", "case", "backend"),
    [(t5.FAMILY, "gated", "cpu"), (marian.FAMILY, "plain", "vulkan")],
)
def test_a_source_gets_its_target_and_tells_where_tokens_look(
    headless, device, tmp_path, family, case, backend
):
    """With the real engine, through modes, gains, and another model and back."""
    one, engine = headless(AppState(options=exact(backend, context=24)), size=WIDE), Engine(device)
    one.program.start(engine)
    path = str(write_case(family, case, tmp_path))
    engine.submit(LoadModel(path, exact(backend, context=24)))
    one.driver.wait("the model", lambda s: s.model is not None)
    for beams in (1, 4):
        one.program.do(ChooseBeams(beams))
        one.program.do(WriteTarget("Where is it?"))
        one.driver.wait("the target", lambda s: not s.busy)
        result = one.state.translating.result
        assert result.tokens and len(result.others) == beams - 1
    one.driver.point("translating.target.1")
    one.driver.wait("the row", lambda s: ROWS.answer(s) is not None)
    assert len(ROWS.answer(one.state).weights) == len(one.state.translating.source)
    for part in ("encoder", "decoder", "cross"):
        one.program.do(SetAttention(one.state.attention.showing(part)))
        one.driver.frames(3)
    assert "translating.other.2" in one.ui.rects and "translating.target.1" in one.ui.rects
    check_gains(one)
    before = one.state.translating.result
    one.program.do(SetOptions(replace(one.state.options, mode="int8")))
    one.driver.wait("the mode", lambda s: s.executor.mode == "int8" and s.load is None)
    one.driver.wait("the target, read again", lambda s: s.context_used == len(before.tokens))
    assert engine.attention("decoder").length == len(before.tokens)
    one.program.do(OpenModel(path))
    one.driver.wait("the model again", lambda s: s.load is None and not s.translating.asked)
    assert one.state.translating.draft == "Where is it?", "what was typed stays"


@pytest.mark.parametrize(("backend", "modes"), [("cpu", ("fp16", "int4")), ("vulkan", ("int4",))])
def test_a_mode_is_switched_while_a_target_stands(headless, device, tmp_path, backend, modes):
    """The target of before stays, read again by the new weights; written again it is theirs."""
    one, engine = headless(AppState(options=exact(backend, context=24)), size=WIDE), Engine(device)
    one.program.start(engine)
    path = write_case(t5.FAMILY, "flan", tmp_path)
    engine.submit(LoadModel(str(path), exact(backend, context=24)))
    one.driver.wait("the model", lambda s: s.model is not None)
    one.program.do(ChooseBeams(1))
    one.program.do(WriteTarget("Where is it?"))
    one.driver.wait("the target", lambda s: not s.busy)
    for mode in modes:
        switch(one, mode)
        check_target(one.state.translating, path, mode)


def switch(one, mode):
    before = one.state.translating
    one.program.do(SetOptions(replace(one.state.options, mode=mode)))
    one.driver.wait("the mode", lambda s: s.executor.mode == mode and s.load is None)
    length = len(before.result.tokens)
    one.driver.wait("the target, read again", lambda s: s.context_used == length)
    assert one.state.translating.result is before.result
    assert one.driver.shows("translating.target.1")
    one.program.do(WriteTarget("Where is it?"))
    one.driver.wait("its target", lambda s: s.translating.result not in (None, before.result))


def check_target(shown, path, mode):
    """Beside what the weights of that mode write without a window."""
    with running(path, exact("cpu", context=24, mode=mode)) as runner:
        translator, source = translator_of(runner), [token.token for token in shown.source]
        target = translator.translate(source, translator.options(1))
    assert not shown.problem
    assert tuple(token.token for token in shown.result.tokens) == target.tokens
    assert shown.result.score == pytest.approx(target.score, abs=1e-4)


def check_gains(one):
    """Without the encoder's heads the target is another; with them the same as before."""
    first = one.state.translating.result
    model = one.state.model
    off = ((1.0,) * model.heads,) * (2 * model.layers)
    off += ((0.0,) * model.heads,) * model.translator.encoder_layers
    for changes, same in ((weighed(off, model), False), (NO_CHANGES, True)):
        one.program.do(Steer(changes))
        one.program.do(WriteTarget("Where is it?"))
        one.driver.wait("the target", lambda s: not s.busy)
        result = one.state.translating.result
        assert (abs(result.score - first.score) < 1e-5) == same
    assert not [line.text for line in one.state.log if line.level == "error"]


def test_gains_are_sent_for_every_row(headless):
    one = headless(READY, size=WIDE)
    gains = ((0.5,) * HEADS,) * one.state.model.gain_rows
    changes = weighed(gains, one.state.model)
    one.program.do(Steer(changes))
    assert one.program._waiting[-1] == SetInterventions(changes)
    assert len(changes.changes) == HEADS * one.state.model.gain_rows
