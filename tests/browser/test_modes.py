"""The weight mode in the page: switched, watched, cancelled and refused; on a model, too."""

from __future__ import annotations

import pytest

from llm_lite.core.messages import EngineOptions
from tests.browser.conftest import DESKTOP, PHONE
from tests.browser.site import bundled, site

UNDER_WAY = ".mode-progress:not([hidden])"
FITS_NOT = "int8 weights need 9 GiB, but this machine has 1 GiB of memory to spare"


def open_modes(person):
    person.page.click("#run")
    person.page.wait_for_selector("#modes")


def switch(person, mode, activations="auto"):
    person.page.select_option("#modes [name=mode]", mode)
    person.page.select_option("#modes [name=activations]", activations)
    person.page.click("#switch-mode")


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_switch_is_watched_by_all_and_can_be_cancelled(visit, service, viewport):
    person, other = visit(viewport=viewport), visit()
    service.modes.go_on.clear()
    open_modes(person)
    assert person.page.evaluate("document.activeElement.name") == "mode"
    assert person.page.is_disabled("#switch-mode"), "it runs so already"
    switch(person, "int8", "a8")
    person.page.wait_for_selector(UNDER_WAY)
    assert person.focused() == "Cancel"
    assert "int8: preparing the weights, 40%" in person.text("#mode-stage")
    assert person.page.get_attribute("progress", "value") == "0.4"
    other.wait("document.querySelector('#run').innerText.startsWith('fp32 → int8 40%')")
    person.page.keyboard.press("Enter")
    person.wait(f"!document.querySelector('{UNDER_WAY}')")
    assert service.modes.last.phase == "cancelled"
    assert person.page.evaluate("document.activeElement.name") == "mode"
    service.modes.go_on.set()
    person.page.click("#switch-mode")  # what was chosen is kept
    other.page.wait_for_selector("#toast >> text=The weights are int8 now, activations a8.")
    other.wait("document.querySelector('#run').innerText.startsWith('int8 · a8')")
    person.wait("document.querySelector('#switch-mode').disabled")
    assert not person.page.evaluate("document.documentElement.scrollWidth > innerWidth")


def test_why_a_mode_cannot_be_is_said_until_another_is_used(visit, service):
    person = visit(locale="ko-KR")
    service.modes.problem = FITS_NOT
    open_modes(person)
    switch(person, "int8")
    person.page.wait_for_selector(".mode-problem:not([hidden])")
    assert person.text(".mode-problem") == f"int8 모드를 쓸 수 없습니다: {FITS_NOT}"
    service.modes.problem = ""
    switch(person, "int4")
    person.page.wait_for_selector("#toast >> text=이제 가중치는 int4")
    person.wait("document.querySelector('.mode-problem').hidden")


def test_one_at_a_time(visit, service):
    person = visit()
    service.modes.go_on.clear()
    open_modes(person)
    person.page.select_option("#modes [name=mode]", "int8")
    service.modes.request("int4", "auto")  # somebody else, before the page hears of it
    person.expected = "409"
    person.page.click("#switch-mode")
    person.page.wait_for_selector(".mode-problem:not([hidden])")
    assert "switched to int4" in person.text(".mode-problem")


def test_an_answer_of_the_bundled_model_goes_on_in_the_new_mode(visit, history, stack):
    service = stack.enter_context(bundled(EngineOptions(backend="cpu", mode="fp16", context=4096)))
    person = visit(stack.enter_context(site(service, history)))
    open_modes(person)
    person.say("Tell me a long story about a lighthouse and the people who keep it.")
    person.wait("document.querySelector('.assistant .markdown')?.innerText.length > 40")
    switch(person, "int4")
    person.page.wait_for_selector("#toast >> text=The weights are int4 now")
    before = len(person.text(".assistant .markdown"))
    person.wait(f"document.querySelector('.assistant .markdown').innerText.length > {before + 100}")
    person.page.click("#send")
    person.answered()
    assert person.page.locator(".problem:not([hidden])").count() == 0
    assert service.executor.mode == "int4"
