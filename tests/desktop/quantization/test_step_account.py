"""What a step would cost on an accelerator, and sliders that change it."""

import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import AccountParameter, AccountStep, ExecutorChanged
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.quantization.state import Choices
from llm_lite.desktop.features.quantization.step_account import (
    STEPS,
    from_slider,
    in_language,
    layers_of,
    steps_of,
    to_slider,
)
from llm_lite.desktop.language.catalogues import catalogue
from llm_lite.desktop.language.translate import use
from tests.desktop.engine.tasks import ACCOUNT
from tests.desktop.quantization.test_quantization_views import at_rest, last, panel  # noqa: F401
from tools.tour.scenes.quantization import look_at_account, scroll_to


def shown(one):
    state = one.program.state
    one.program.state = replace(state, executor=replace(state.executor, accounts=True))
    one.driver.click("tab.performance")
    one.driver.frames(2)


def estimated(one):
    shown(one)
    scroll_to(one.driver, "account.ask")
    one.driver.click("account.ask")
    one.driver.wait("the end", at_rest)
    one.driver.frames(2)


def test_layers_are_summed_and_the_rest_stands_last():
    layers = layers_of(ACCOUNT)
    assert [one.name for one in layers] == ["0", "1", ""]
    first, second, rest = layers
    assert first.busy == pytest.approx(1e-3)
    assert first.stalled == pytest.approx(2e-3)
    assert first.host == pytest.approx(5e-4)
    assert second.stalled == pytest.approx(1e-4)
    assert rest.seconds == rest.host == pytest.approx(6.1e-3)
    assert sum(one.seconds for one in layers) == pytest.approx(ACCOUNT.seconds)


def test_an_account_says_what_was_busy():
    assert ACCOUNT.seconds_on("accelerator") == pytest.approx(5e-3)
    assert ACCOUNT.utilisation == pytest.approx(8_000_000 / (5e-3 * 3e11))
    assert ACCOUNT.memory_share == pytest.approx(10_000_000 / (5e-3 * 19.2e9))
    assert [op.waits_for for op in ACCOUNT.ops] == [
        "host", "memory", "host", "multipliers", "host",
    ]  # fmt: skip


@pytest.mark.parametrize("parameter", ACCOUNT.parameters, ids=lambda one: one.name)
def test_a_slider_reaches_its_ends_and_keeps_its_value(parameter):
    assert from_slider(parameter, 0) == parameter.least
    assert from_slider(parameter, STEPS) == parameter.most
    assert to_slider(parameter, parameter.least) == 0
    assert to_slider(parameter, parameter.most) == STEPS
    found = from_slider(parameter, to_slider(parameter, parameter.value))
    assert found == pytest.approx(parameter.value, rel=0.02)


def test_a_slider_has_only_the_values_that_there_are():
    rows = AccountParameter("rows", "Rows", "", 32, 8, 128, (8, 32, 128))
    assert steps_of(rows) == 2
    assert [from_slider(rows, place) for place in range(3)] == [8, 32, 128]
    assert [to_slider(rows, value) for value in (8, 30, 128)] == [0, 1, 2]


def refuse(command):
    raise RequestError("no such array")


def test_an_estimate_that_fails_is_asked_for_once(panel):  # noqa: F811
    one, engine = panel()
    estimated(one)
    engine.answers[AccountStep] = refuse
    scroll_to(one.driver, "account.clock_mhz")
    one.driver.click("account.clock_mhz")
    one.driver.wait("the end", at_rest)
    count = len([c for c in engine.commands if isinstance(c, AccountStep)])
    one.driver.frames(10)
    assert len([c for c in engine.commands if isinstance(c, AccountStep)]) == count == 2


def test_another_executor_has_no_account(panel):  # noqa: F811
    one, _ = panel()
    estimated(one)
    event = ExecutorChanged(replace(one.state.executor, mode="int8"), one.state.model)
    after = apply(event, one.state, 1.0)
    held = replace(after.quantization, choices=Choices(parameters=(("clock_mhz", 9.0),)))
    assert held.account(after.executor) is None and held.parameters(after.executor) == ()
    again = held.with_account(ACCOUNT, after.executor)
    assert again.account(after.executor) is ACCOUNT and again.parameters(after.executor) == ()


def test_it_is_shown_where_an_accelerator_gives_one(panel):  # noqa: F811
    one, engine = panel()
    one.driver.click("tab.performance")
    one.driver.frames(2)
    assert "account.ask" not in one.ui.rects
    estimated(one)
    assert last(engine, AccountStep) == AccountStep(1)
    held = one.state.quantization
    assert held.account(one.state.executor).parameters == ACCOUNT.parameters
    scroll_to(one.driver, "account.layers")
    left, _, right, _ = one.driver.rect("view.performance")
    x0, _, x1, _ = one.driver.rect("account.layers")
    assert left <= x0 < x1 <= right


def test_a_slider_that_is_let_go_asks_again(panel):  # noqa: F811
    one, engine = panel()
    estimated(one)
    scroll_to(one.driver, "account.clock_mhz")
    one.driver.click("account.clock_mhz")
    one.driver.wait("the end", at_rest)
    one.driver.frames(3)
    asked = dict(last(engine, AccountStep).parameters)
    assert list(asked) == ["clock_mhz"] and asked["clock_mhz"] != 300
    account = one.state.quantization.account(one.state.executor)
    assert account.parameters[1].value == asked["clock_mhz"]
    scroll_to(one.driver, "account.reset")
    one.driver.click("account.reset")
    one.driver.wait("the end", at_rest)
    assert last(engine, AccountStep).parameters == ()
    assert one.state.quantization.choices.parameters == ()


def test_the_tour_has_pictures_of_it(panel):  # noqa: F811
    one, engine = panel()
    shown(one)
    names = []
    look_at_account(one.driver, names.append)
    assert names == ["04-account", "04-account-what-if"]
    assert last(engine, AccountStep).parameters != ()


def test_words_of_a_package_are_in_the_language_in_use():
    words = {"ko": {"Clock": "클록"}}
    account = replace(ACCOUNT, translations=words)
    try:
        use(catalogue("ko"))
        assert in_language(account, "Clock") == "클록"
        assert in_language(account, "Rows of multipliers") == "Rows of multipliers"
        use(catalogue("en"))
        assert in_language(account, "Clock") == "Clock"
    finally:
        use(catalogue("en"))


def test_another_model_has_no_account(panel):  # noqa: F811
    one, _ = panel()
    estimated(one)
    model = replace(one.state.model, path="/another.gguf")
    held = one.state.quantization.fit(model)
    assert held.account(one.state.executor) is None and held.choices.parameters == ()
    assert held.fit(model) is held
