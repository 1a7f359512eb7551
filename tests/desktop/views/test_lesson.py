"""The lesson walked through on real models: every number that it shows is the reference's."""

import math
import re
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from imgui_bundle import imgui

from llm_lite.core.engine.engine import Engine
from llm_lite.core.messages import Generate, ModelLoaded
from llm_lite.core.messages.inspecting.lesson import TEMPERATURES
from llm_lite.desktop.actions.act import act
from llm_lite.desktop.actions.lesson.following import (
    DrawAgain,
    FollowPosition,
    GoToStep,
    OpenLayer,
    RunSentence,
    SetLessonSampling,
    ShowLesson,
    ShowScaled,
    ShowWhy,
)
from llm_lite.desktop.actions.program import OpenModel, SetLanguage, SetLessMotion
from llm_lite.desktop.language.catalogues import catalogue
from llm_lite.desktop.language.translate import tr, use
from llm_lite.desktop.state.apply import apply
from llm_lite.desktop.state.lesson.lesson_state import STEPS
from llm_lite.desktop.state.lesson.numbers import angle
from llm_lite.desktop.state.lesson.sampled import token_shares
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.views.lesson import motion
from llm_lite.desktop.views.lesson.formulas import formula
from llm_lite.desktop.views.lesson.links import OF_NUMBERS, OF_STEPS
from llm_lite.desktop.views.lesson.scene import SHOWN
from llm_lite.desktop.views.lesson.words import WORDS, legend_of, says_of, why_of
from tests.desktop.headless import Headless
from tests.families import family_of
from tests.family_checks import write_case
from tests.lesson_reference import LessonReference, rms
from tests.runners import exact

SENTENCE = "The capital of France is"
MOST_VERTICES, MOST_NUMBERS = 20_000, 160  # of a frame


@contextmanager
def lesson(path, sentence, **options):
    """The real interface and engine, at the first step of the lesson."""
    state = AppState(options=exact("cpu", **options), less_motion=True)
    app = Headless(state)
    try:
        app.program.start(Engine(None, lambda: None))
        app.program.do(OpenModel(str(path)))
        app.driver.wait("the model", lambda s: s.model is not None and s.load is None)
        app.program.do(ShowLesson(True))
        app.program.do(RunSentence(sentence))
        app.driver.wait("the answer", lambda s: s.messages and not s.busy)
        traced(app)
        yield app
    finally:
        app.close()


@pytest.fixture
def tiny(tmp_path):
    return write_case(family_of("llama"), next(iter(family_of("llama").cases)), tmp_path)


def traced(app):
    app.driver.frames(2)
    app.driver.wait("the trace", lambda s: s.lesson.trace is not None and not s.lesson.request)
    app.driver.frames(2)
    return app.state.lesson.trace


def shown(app):
    return dict(app.ui.memory[SHOWN])


class Expected:
    """Any number of the lesson by its name, from the reference alone."""

    def __init__(self, path, app, context=0):
        self.lesson, self.trace = app.state.lesson, app.state.lesson.trace
        tokens = app.program.engine.attention().tokens()
        trace = self.trace
        self.tokens = tokens
        self.ref = LessonReference(path, tokens, trace.layer, trace.head, context, trace.position)

    def of(self, name):
        """Its value; `scale` is how large what it is a part of can be."""
        self.scale = 0.0
        kind, which = name[0], name[1] if len(name) > 1 else None
        ref, scale = self.ref, self.ref.wiring.scale
        if vector := self.vectors().get(kind):
            found = vector()
            if np.ndim(found):
                self.scale = float(np.abs(found).max())
                return rms(found) if which == "rms" else float(found[which])
        if kind in ("residual", "attention", "feed_forward") and self.lesson.name == "residual":
            return self.growth(kind, which)
        inside = [score.position for score in self.trace.opened.head.scores]
        outside = [p for p in range(ref.position + 1) if p not in inside]
        match kind:
            case "id":
                return self.tokens[which]
            case "position":
                return ref.position
            case "angle":
                return self.angle(which)
            case "zoom":
                return rms(ref.before) / rms(ref.normed)
            case "scale":
                return scale
            case "dot" | "sum":
                self.scale = float(np.abs(ref.dots).max())
                return ref.dots[which]
            case "score":
                return ref.scores(scale)[which]
            case "probability":
                return 100 * ref.shares(scale)[which]
            case "unscaled":
                return 100 * ref.shares(1.0)[which]
            case "others":
                return 100 * ref.shares(scale)[outside].sum()
            case "others_unscaled":
                return 100 * ref.shares(1.0)[outside].sum()
            case "head":
                heads = ref.of_layer("attention", "heads")
                return rms(ref.heads_of(heads, ref.wiring.heads)[-1, which])
            case "neuron":
                return self.activations[which]
            case "up" | "gate":
                return ref.of_layer("feed_forward", kind, f"{kind}.biased")[-1][which]
            case "strong":
                return int((abs(self.activations) >= abs(self.activations).max() / 10).sum())
            case "neurons":
                return len(self.activations)
        return self.sampled(kind, which)

    def vectors(self):
        ref = self.ref
        residual = {} if self.lesson.name == "residual" else {"residual": lambda: ref.before}
        return {
            "row": lambda: ref.row("embedding"),
            "place": lambda: ref.row("positions"),
            "embedded": lambda: ref.embedded,
            "normed": lambda: ref.normed,
            "query": lambda: ref.queries[-1, ref.head],
            "key": lambda: ref.keys[-1],
            "value": lambda: ref.values[-1],
            "head_output": lambda: ref.shares(ref.wiring.scale) @ ref.values,
            "attended": lambda: ref.attended,
            "after_attention": lambda: ref.of_layer("attention", "residual")[-1],
            "ff_output": lambda: ref.added,
            **residual,
        }

    @property
    def activations(self):
        return self.ref.of_layer("feed_forward", "gelu", "gelu_mul", "silu_mul")[-1]

    def growth(self, kind, layer):
        ref = self.ref
        middle, after = ref.row(f"layers.{layer}.attention.residual"), ref.ends_of(layer)
        before = ref.ends_of(layer - 1) if layer else ref.embedded
        parts = {"attention": middle - before, "feed_forward": after - middle, "residual": after}
        return rms(parts[kind])

    def angle(self, pair):
        """By the formula of rotary positions (Su et al. 2021)."""
        shape = self.trace.shape
        turned = self.ref.position * shape.theta ** (-2 * pair / shape.rotary_dim)
        return math.degrees(turned) % 360

    def sampled(self, kind, which):
        lesson, shape = self.lesson, self.trace.shape
        shares = self.ref.probabilities(lesson.temperature)
        order = np.argsort(-shares, kind="stable")
        sums = np.cumsum(shares[order])
        kept = order[: int((sums < lesson.top_p).sum()) + 1]
        left = shares[kept].sum()
        draw = (0.5 + lesson.draws * 0.6180339887498949) % 1.0
        chosen = kept[np.searchsorted(sums[: len(kept)], draw * left, side="right")]
        length, layers = self.ref.position + 1, len(self.ref.ends)
        row = 2 * 4 * shape.kv_heads * shape.head_dim * layers  # keys and values in float32
        return {
            "temperature": lesson.temperature,
            "top_p": lesson.top_p,
            "logit": lambda: self.ref.logits[which],
            "share": lambda: 100 * shares[which],
            "kept_share": lambda: 100 * shares[which] / left,
            "kept": len(kept),
            "drawn": draw,
            "chosen_share": 100 * shares[chosen] / left,
            "length": length,
            "grown": length + 1,
            "position_bytes": row,
            "cache_bytes": row * (length + 1),
            "context": shape.context,
        }[kind]


def compare(name, text, expected):
    """A number on the screen is the expected one, to the digits that stand there."""
    wanted = expected.of(name)
    wanted = float(wanted() if callable(wanted) else wanted)
    unit = re.search(r"(KiB|MiB|GiB|B)$", text)
    factor = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit[1]] if unit else 1
    digits = re.sub(r"[^0-9.+-]", "", text.replace("−", "-"))
    found, places = float(digits), len(digits.partition(".")[2])
    least = 10.0**-places
    # Sums in another order differ in float32's last bits: a number may lie that near a rounding.
    noise = 3e-6 * max(abs(wanted), expected.scale) / factor
    assert abs(found - wanted / factor) <= 0.501 * least + noise, (name, text, wanted)


def walk(app, path, context=0):
    """All steps; how many numbers were compared."""
    traced(app)
    expected, count = Expected(path, app, context), 0
    for step, name in enumerate(STEPS):
        app.program.do(GoToStep(step))
        app.driver.frames(3)
        expected.lesson = app.state.lesson
        found = shown(app)
        assert found or name == "position", name
        for number, text in found.items():
            compare(number, text, expected)
        count += len(found)
    return count


def test_every_number_on_smollm2_is_the_references(smollm2):
    with lesson(smollm2, SENTENCE) as app:
        assert [app.state.positions[p] for p, _ in app.state.lesson.trace.tokens] == [
            "The", " capital", " of", " France", " is",
        ]  # fmt: skip
        assert walk(app, smollm2) > 150
        check_angles_and_shares(app, Expected(smollm2, app))
        app.program.do(OpenLayer(29, 8))
        app.program.do(FollowPosition(3))
        app.program.do(SetLessonSampling(1.3, 0.6))
        app.program.do(DrawAgain())
        app.program.do(ShowScaled(False))
        assert walk(app, smollm2) > 140


def check_angles_and_shares(app, expected):
    """All pairs, and all temperatures that the slider has."""
    trace = app.state.lesson.trace
    for pair in range(32):
        apart = abs(angle(trace.opened.head, pair, trace) - expected.angle(pair))
        assert min(apart, 360 - apart) < 0.05
    ids = [token.id for token in trace.distribution.top]
    for temperature in TEMPERATURES:
        found = np.array(token_shares(trace.distribution, temperature))
        assert np.abs(found - expected.ref.probabilities(temperature)[ids]).max() < 1e-4


@pytest.mark.parametrize("family", ["gemma2", "gpt2", "qwen3"])
def test_every_number_on_other_architectures_is_the_references(family, tmp_path):
    known = family_of(family)
    case = next(iter(known.cases))
    path, context = write_case(known, case, tmp_path), known.context.get(case, 0)
    with lesson(path, "abc def", context=context) as app:
        app.program.do(OpenLayer(1, 1))
        assert walk(app, path, context) > 60
        assert bool(app.state.lesson.trace.place) == (family == "gpt2")


def test_both_languages_say_every_step(smollm2):
    with lesson(smollm2, SENTENCE) as app:
        trace = app.state.lesson.trace
        variants = (
            trace.shape,
            replace(trace.shape, positions="learned", norm="layer"),
            replace(trace.shape, positions="none", norm="none"),
        )
        try:
            use(catalogue("ko"))
            for name in STEPS:
                said = [f(name, shape) for f in (says_of, why_of) for shape in variants]
                said += [WORDS[name].title, legend_of(name, trace.shape)]
                for words in said:
                    assert len(words) > 8 and tr(words) != words, words
                    assert re.search("[가-힣]", tr(words))
                assert formula(replace(app.state.lesson, step=STEPS.index(name)))
        finally:
            use(catalogue("en"))
        for language in ("ko", "en"):
            app.program.do(SetLanguage(language))
            app.program.do(ShowWhy(language == "ko"))
            walk_drawn(app)


def walk_drawn(app):
    """Every step draws something, within its budget and its frame."""
    size = imgui.get_io().display_size
    for step in range(len(STEPS)):
        app.program.do(GoToStep(step))
        app.driver.frames(3)
        vertices = imgui.get_draw_data().total_vtx_count
        assert 1_000 < vertices < MOST_VERTICES, (STEPS[step], vertices)
        assert len(shown(app)) <= MOST_NUMBERS
        left, top, right, bottom = app.ui.rects["lesson.picture"]
        for name, rect in app.ui.rects.items():
            if name.startswith("lesson.number."):
                inside = left <= rect[0] and rect[2] <= right and top <= rect[1]
                assert inside and rect[3] <= bottom, (STEPS[step], name, rect)
        assert right <= size.x and bottom <= size.y


def test_the_picture_moves_by_the_clock_and_can_be_held(tiny):
    with lesson(tiny, "abc def") as app:
        moves = motion.motion(app.ui)
        assert moves.at == 1.0 and not moves.playing  # less motion: the end at once
        app.program.do(SetLessMotion(False))
        app.program.do(GoToStep(1))
        app.driver.frames(1)
        assert moves.playing and moves.at < 0.5
        assert app.ui.redraw_at <= app.ui.now  # the next frame follows at once
        app.driver.frames(2)
        before = moves.at
        app.driver.press(imgui.Key.space)
        held = moves.at
        assert held >= before and not moves.playing
        app.driver.frames(3)
        assert moves.at == held
        app.driver.press(imgui.Key.space)
        assert moves.playing


def test_the_cell_under_the_pointer_is_told(tiny):
    with lesson(tiny, "abc def") as app:
        trace = app.state.lesson.trace
        x0, y0, x1, y1 = app.ui.rects["lesson.strip.row"]
        count = min(64, len(trace.row.values))
        for index in (0, 17, count - 1):
            app.driver.point_at(x0 + (index + 0.5) * (x1 - x0) / count, (y0 + y1) / 2)
            told = shown(app)[("row", index)]
            assert float(told.replace("−", "-")) == round(trace.row.values[index], 3)


def test_a_sentence_is_read_as_it_is_and_the_settings_stay(tiny):
    with lesson(tiny, "abc def") as app:
        before = app.state.sampling, app.state.system_prompt
        told = replace(app.state, system_prompt="Be kind.")
        after, commands = act(RunSentence("  ghi jkl "), told, 0.0)
        generate = commands[-1]
        assert isinstance(generate, Generate) and generate.raw
        assert [message.content for message in generate.messages] == ["ghi jkl"]
        assert generate.sampling.max_new_tokens < 10
        assert (after.sampling, after.system_prompt) == (before[0], "Be kind.")
        assert after.chat == told.chat + 1  # the conversation that was there is kept
        assert after.lesson.trace is None and after.lesson.step == 0


def test_another_model_forgets_the_trace(tiny):
    with lesson(tiny, "abc def") as app:
        app.program.do(GoToStep(4))
        loaded = ModelLoaded(app.state.model, app.state.executor, 0.1)
        state = apply(loaded, app.state, 0.0)
        assert state.lesson.trace is None and state.lesson.step == 4 and state.lesson.shown


def test_a_person_can_choose_token_layer_and_head_in_the_page(tiny):
    with lesson(tiny, "abc def") as app:
        first = app.state.lesson.trace
        app.driver.click(f"lesson.token.{first.position - 1}")
        trace = traced(app)
        assert trace.position == first.position - 1
        app.program.do(GoToStep(STEPS.index("queries")))
        app.driver.frames(3)
        other = (trace.head + 1) % trace.shape.heads
        app.driver.click(f"lesson.open.{other}")
        assert traced(app).head == other
        app.program.do(GoToStep(STEPS.index("residual")))
        app.driver.frames(3)
        x0, y0, _, y1 = app.ui.rects["lesson.picture"]
        app.driver.point_at(x0 + 30, (y0 + y1) / 2)
        app.driver.press_button(0)
        assert traced(app).layer == 0


def test_there_is_a_way_in_without_a_conversation(tiny):
    with lesson(tiny, "abc def") as app:
        app.driver.click("lesson.own")
        app.driver.frames(3)
        app.driver.click("lesson.draft")
        app.driver.type("xyz")
        app.driver.click("lesson.run")
        app.driver.wait("the answer", lambda s: not s.busy and s.messages[0].text == "xyz")
        assert "".join(app.state.positions[p] for p, _ in traced(app).tokens).endswith("xyz")


def test_arrows_step_and_escape_leaves(tiny):
    with lesson(tiny, "abc def") as app:
        app.driver.leave()
        app.driver.press(imgui.Key.right_arrow)
        app.driver.press(imgui.Key.right_arrow)
        assert app.state.lesson.step == 2
        app.driver.press(imgui.Key.left_arrow)
        assert app.state.lesson.step == 1
        app.driver.press(imgui.Key.escape)
        assert not app.state.lesson.shown and app.state.lesson.step == 1


def test_a_number_leads_to_the_view_that_it_comes_from(tiny):
    assert set(OF_STEPS) == set(STEPS)
    with lesson(tiny, "abc def") as app:
        trace = app.state.lesson.trace
        for step, number, view in (
            (5, f"probability.{trace.position}", "head"), (9, f"residual.{trace.layer}", "lens"),
            (11, "grown", "kv_cache"), (0, f"id.{trace.position}", None),
        ):  # fmt: skip
            app.program.do(ShowLesson(True))
            app.program.do(GoToStep(step))
            app.driver.leave()
            app.driver.frames(3)
            app.driver.click(f"lesson.number.{number}")
            app.driver.frames(4)
            assert not app.state.lesson.shown
            assert app.state.attention.row == trace.position
            app.driver.click("status.lesson")
            assert app.state.lesson.shown and app.state.lesson.step == step
            app.program.do(ShowLesson(False, away=True))
            app.driver.frames(3)
            if view is None:
                assert app.state.xray.shown and app.state.xray.at in (trace.position, None)
            else:
                assert app.driver.shows(f"view.{view}")
        assert (trace.layer, trace.head) in app.state.attention.locked


def test_every_number_has_a_view(tiny):
    with lesson(tiny, "abc def") as app:
        for step in range(len(STEPS)):
            app.program.do(GoToStep(step))
            app.driver.frames(2)
            assert {str(name[0]) for name in shown(app)} <= set(OF_NUMBERS)
