"""The kernel study in the performance view: bars beside the limits, and the lines of a form."""

import math

import pytest

from llm_lite.core.messages import (
    Ended,
    KernelsStudied,
    ModelLoaded,
    StudyKernels,
)
from llm_lite.core.messages.inspecting.profiling import SOFTWARE_DRIVER
from llm_lite.core.metrics.kernel_study import forms
from llm_lite.core.records import replace
from llm_lite.desktop.features.performance.kernel_study import (
    KernelStudyControls,
    RateAxis,
    gflops,
    percent_of,
)
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization.state import Work
from llm_lite.desktop.language.core_words import WORDS
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.engine.tasks import FORMS, STUDY
from tests.desktop.quantization.test_quantization_views import at_rest, last, panel  # noqa: F401
from tools.tour.scenes.quantization import scroll_to


def click(one, name):
    scroll_to(one.driver, name)
    one.driver.click(name)


def measured(one):
    one.driver.click("tab.performance")
    click(one, "kernels.measure")
    one.driver.wait("the end", at_rest)
    one.driver.frames(2)


@pytest.mark.parametrize("size", [(1280, 720), (3840, 2160)])
def test_the_forms_are_measured_and_a_click_shows_the_lines_of_one(panel, size):  # noqa: F811
    one, engine = panel(size=size)
    measured(one)
    assert last(engine, StudyKernels).backend == "vulkan"
    left, _, right, _ = one.driver.rect("view.performance")
    for number in range(len(FORMS)):
        x0, _, x1, _ = one.driver.rect(f"kernels.form.{number}")
        assert left <= x0 < x1 <= right
    assert one.ui.local(KernelStudyControls).shown is None
    click(one, "kernels.form.2")
    assert one.ui.local(KernelStudyControls).shown == 2
    scroll_to(one.driver, "kernels.code")
    x0, _, x1, _ = one.driver.rect("kernels.code")
    assert left <= x0 < x1 <= right


def test_forms_are_dots_at_their_rates(panel):  # noqa: F811
    """On a logarithmic axis: ten times as fast is as far whatever the rates are."""
    one, _ = panel(size=(1280, 2160))
    measured(one)
    scroll_to(one.driver, "kernels.form.0")
    dots = [one.driver.rect(f"kernels.dot.{form.name}")[0] for form in FORMS]
    rates = [math.log10(STUDY.gflop_s(form)) for form in FORMS]
    decade = (dots[-1] - dots[0]) / (rates[-1] - rates[0])
    assert dots == pytest.approx([dots[0] + decade * (r - rates[0]) for r in rates], abs=1.0)


def test_each_backend_keeps_its_study(panel):  # noqa: F811
    one, engine = panel()
    measured(one)
    click(one, "kernels.cpu")
    assert "kernels.form.0" not in seen(one)
    click(one, "kernels.measure")
    one.driver.wait("the end", at_rest)
    assert last(engine, StudyKernels).backend == "cpu"
    assert {study.backend for study in one.state.quantization.studies} == {"vulkan", "cpu"}
    click(one, "kernels.vulkan")
    assert "kernels.form.4" in seen(one)


def seen(one):
    one.ui.rects.clear()
    one.driver.frames(2)
    return one.ui.rects


def test_a_person_stops_it(panel):  # noqa: F811
    one, _ = panel(delay=0.2)
    one.driver.click("tab.performance")
    click(one, "kernels.measure")
    one.driver.wait("the beginning", lambda s: bool(s.quantization.studies))
    click(one, "quantization.stop.kernels")
    one.driver.wait("the end", at_rest)
    assert len(one.state.quantization.study("vulkan").forms) < len(FORMS)
    assert one.state.quantization.problem("kernels") == ""


def studied(study, state):
    """After a task that has found this."""
    asked = StudyKernels("vulkan")
    held = replace(state.quantization, work=Work(asked, "kernels"))
    state = apply(KernelsStudied(study), replace(state, quantization=held), 0.0, asked)
    return apply(Ended(), state, 0.0, asked)


def test_a_study_is_not_of_the_model():
    state = studied(STUDY, AppState())
    state = apply(ModelLoaded(MODEL, EXECUTOR, 1.0), state, 1.0)
    assert state.quantization.study("vulkan") == STUDY
    again = replace(STUDY, device="another")
    assert studied(again, state).quantization.studies == (again,)


def test_the_code_of_a_kernel_comes_whole_into_the_window():
    code = "\n".join(["  for (uint k = 0; k < K; ++k) {"] * 60)
    study = replace(STUDY, forms=(replace(FORMS[0], code=code),))
    state = studied(study, AppState())
    assert state.quantization.study("vulkan").forms[0].code == code


def test_rates_lie_on_a_logarithmic_axis():
    axis = RateAxis(0.1, 100.0, 300.0)
    assert [axis.at(rate) for rate in (0.1, 1, 10, 100)] == pytest.approx([0, 100, 200, 300])
    assert (axis.at(0.01), axis.at(1000)) == (0.0, 300.0)
    assert axis.tens == pytest.approx([0.1, 1, 10, 100])


@pytest.mark.parametrize("seconds", [1e-5, 0.4, 9.0])
def test_all_that_is_shown_is_on_the_axis(seconds):
    study = replace(STUDY, forms=(replace(FORMS[0], seconds=seconds),))
    axis = RateAxis.of(study, 100.0)
    assert axis.low < study.without_reuse_gflop_s and axis.low < study.gflop_s(study.forms[0])
    assert axis.high == max(study.gflop_s(study.forms[0]), study.roof_gflop_s)


def test_figures():
    assert [gflops(rate) for rate in (0.123, 9.44, 99.9, 1234.5)] == [
        "0.12",
        "9.4",
        "99.9",
        "1,234",
    ]
    assert [percent_of(share) for share in (0.004, 0.2, 1.0)] == ["0.4 %", "20 %", "100 %"]


def test_all_that_the_study_says_can_be_said_in_another_language():
    known = (*forms.VULKAN, *forms.VULKAN_OWNS, *forms.CPU, forms.CPU_OWN)
    said = {words for form in known for words in (form.name, form.why)}
    assert {SOFTWARE_DRIVER, *said} <= set(WORDS)
