"""X-ray, heads, lens and gauges in the browser."""

import re

import numpy as np

from llm_lite.core.records import replace
from tests.asking import served_maps
from tests.server.scripted_model import HEADS, LAYERS

GRID = ".grid-box canvas"
LARGE = ".large canvas"
ANSWER = ".stream:not(.prompt) .tok"


def ready(person, text="Why is the sky blue?"):
    person.ask(text)
    person.page.click("#inside-open")
    person.wait("document.querySelector('#heads-at')?.innerText.startsWith('Layer')")


def ground(person, selector):
    return person.page.evaluate(
        f"getComputedStyle(document.querySelector({selector!r})).backgroundColor"
    )


def test_likelihood_and_alternatives(person, service):
    person.ask("Why is the sky blue?")
    person.page.click("#xray-switch")
    person.page.wait_for_selector(ANSWER)
    said = "".join(person.page.locator(ANSWER).all_text_contents())
    assert said.startswith("You said: Why is the sky blue?")
    person.page.wait_for_selector(".stream.prompt")
    assert "user: Why is the sky blue?" in "".join(
        person.page.locator(".stream.prompt .tok").all_text_contents()
    )
    assert "color(" in ground(person, ANSWER) or "rgba" in ground(person, ANSWER)
    person.page.hover(f"{ANSWER} >> nth=1")
    card = person.text("#card")
    assert "“said”" in card and "50.0% likely" in card
    assert "Likeliest here" in card and "25.0%" in card


def test_where_a_token_looks(person, service):
    person.ask("Why is the sky blue?")
    person.page.click("#xray-switch")
    person.page.wait_for_selector(".stream.prompt")
    person.page.click("#xray-bar .segments button >> nth=1")
    person.page.select_option("#xray-bar [data-name=layer]", "1")
    person.page.select_option("#xray-bar [data-name=head]", "2")
    person.page.hover(f"{ANSWER} >> nth=1")
    person.page.wait_for_selector("#card h4 >> text=Looks most at")
    at = int(re.search(r"position (\d+)", person.text("#card"))[1])
    response = service.requests[-1].response
    row = served_maps(service, response, 1, [2], at, at + 1)[0, 0]
    best = np.argsort(-row, kind="stable")[:5]
    shown = [int(n) for n in person.texts("#card .bars >> nth=-1 >> .muted")]
    assert sorted(shown) == sorted(best.tolist())
    tinted = person.page.evaluate(
        "[...document.querySelectorAll('.tok')].map((e) => e.style.backgroundColor !== '')"
    )
    assert tinted[best[0]] and not any(tinted[at + 1 :])


def test_tokens_by_keyboard(person):
    person.ask("Why is the sky blue?")
    person.page.keyboard.press("Alt+x")
    person.page.wait_for_selector(".stream.prompt")
    person.page.focus(".tok[tabindex='0']")
    person.page.keyboard.press("Home")
    assert "position 0" in person.text("#card")
    person.page.keyboard.press("ArrowRight")
    assert "position 1" in person.text("#card")
    person.page.keyboard.press("ArrowDown")
    assert int(re.search(r"position (\d+)", person.text("#card"))[1]) > 2
    person.page.keyboard.press("Enter")
    assert person.page.locator(".tok.pinned").count() == 1
    person.page.keyboard.press("Escape")
    assert person.page.is_hidden("#card")
    person.page.keyboard.press("Alt+x")
    assert person.page.is_visible("#messages")


def test_a_kept_answer_has_its_likelihoods(person, service):
    person.ask("Why is the sky blue?")
    person.expected = "404"  # of the cache, in the browser's own log
    service._kept.clear()  # the cache was needed for others
    person.page.reload()
    person.page.wait_for_selector(".message.assistant .stats")
    person.page.click("#xray-switch")
    person.page.wait_for_selector(ANSWER)
    person.page.hover(f"{ANSWER} >> nth=1")
    assert "50.0% likely" in person.text("#card")
    assert "holds this answer no more" in person.text("#tokens")


def test_a_reload_finds_the_cache_again(person):
    person.ask("Why is the sky blue?")
    person.page.reload()
    person.page.wait_for_selector(".message.assistant .stats")
    person.page.click("#xray-switch")
    person.page.wait_for_selector(".stream.prompt")


def pixel(person, selector, x, y):
    """Of a canvas, in CSS pixels."""
    return person.page.evaluate(
        "([s, x, y]) => { const c = document.querySelector(s); const r = c.width / c.clientWidth;"
        " return [...c.getContext('2d').getImageData(x * r, y * r, 1, 1).data].slice(0, 3); }",
        [selector, x, y],
    )


def test_the_grid_of_heads(person):
    ready(person)
    box = person.page.locator(GRID).bounding_box()
    seen = set()
    for layer in range(LAYERS):
        for head in range(HEADS):
            person.page.mouse.move(box["x"] + 26 + 63 * head + 5, box["y"] + 18 + 63 * layer + 40)
            assert person.text("#heads-at") == f"Layer {layer}, head {head}"
            column = [
                tuple(pixel(person, GRID, 26 + 63 * head + x, 18 + 63 * layer + 55))
                for x in range(2, 50, 4)
            ]
            assert len(set(column)) > 3, "a map has colours"
            seen.add(tuple(column))
    assert len(seen) == LAYERS * HEADS, "each head has its own"


def test_a_head_is_chosen_and_drawn_large(person, service):
    ready(person)
    person.page.click(GRID, position={"x": 26 + 63 * 2 + 10, "y": 18 + 63 + 40})
    assert person.page.input_value("#panel-heads [data-name=layer]") == "1"
    assert person.page.input_value("#panel-heads [data-name=head]") == "2"
    response = service.requests[-1].response
    length = len(service.answer_tokens(response).tokens)
    person.page.locator(LARGE).scroll_into_view_if_needed()
    size = person.page.locator(LARGE).bounding_box()["width"]
    row, column = length - 2, 3
    place = {"x": (column + 0.5) * size / length, "y": (row + 0.5) * size / length}
    person.page.hover(LARGE, position=place)
    exact = served_maps(service, response, 1, [2], row, row + 1)[0, 0, column]
    said = person.text(".large + .readout")
    assert f"at {row} looks at" in said and f"at {column}:" in said
    told = float(re.search(r"([\d.]+)%", said)[1]) / 100
    assert abs(np.log(told / exact)) < 0.05
    person.page.click(LARGE, position=place)
    person.page.wait_for_selector(f"#panel-heads h2 >> text=at {row} looks at most")


def test_heads_by_keyboard(person):
    ready(person)
    person.page.focus(GRID)
    before = person.text("#heads-at")
    person.page.keyboard.press("ArrowRight")
    person.page.keyboard.press("ArrowUp")
    assert person.text("#heads-at") != before
    person.page.focus(LARGE)
    person.page.keyboard.press("ArrowUp")
    person.page.keyboard.press("ArrowLeft")
    assert "looks at" in person.text(".large + .readout")


def test_the_lens(person, service):
    ready(person)
    person.page.click("#tab-lens")
    person.page.wait_for_selector(".lens")
    assert person.page.locator(".lens tr").count() == LAYERS
    assert person.texts(".lens th")[0] == f"L{LAYERS - 1}"
    assert person.texts(".lens em")[0] == "50%"


def test_the_gauges(person, service):
    ready(person, "Why is the sky blue? " * 3)
    person.page.click("#tab-engine")
    panel = "#panel-engine"
    person.wait("document.querySelector('#panel-engine').innerText.includes('tok/s')")
    assert float(person.text(f"{panel} .big").split()[0].replace(",", "")) > 1
    assert "in use 0" in person.text(panel)
    assert "scripted" in person.text(f"{panel} .facts")
    person.ask("And again")
    person.wait(
        "/[1-9]\\d* of \\d+ tokens were in the cache/"
        ".test(document.querySelector('#panel-engine').innerText)"
    )


def test_tabs_by_keyboard(person):
    ready(person)
    person.page.focus("#tab-heads")
    person.page.keyboard.press("ArrowRight")
    assert person.focused() == "tab-lens"
    assert person.page.is_visible("#panel-lens") and person.page.is_hidden("#panel-heads")


def test_a_token_that_is_a_part_of_a_character(person, service):
    plain = service.token_texts
    service.token_texts = lambda ids: ["" if n == 1 else t for n, t in enumerate(plain(ids))]
    person.ask("Why is the sky blue?")
    person.page.click("#xray-switch")
    person.page.wait_for_selector(".stream.prompt")
    assert person.page.locator(".tok.part").count() == 1
    person.page.hover(".tok.part")
    assert person.text("#card").startswith("part of ") and "position 1" in person.text("#card")


def test_another_tab_finds_an_answer_and_another_browser_says_why_not(person, service):
    person.ask("Why is the sky blue?")
    person.page.evaluate("sessionStorage.clear()")
    person.page.reload()
    person.page.wait_for_selector(".message")
    person.page.click("#xray-switch")
    person.page.wait_for_selector(".stream.prompt")
    person.page.evaluate("localStorage.removeItem('llm-lite.responses')")
    person.page.reload()
    person.page.wait_for_selector(".message")
    person.page.click("#xray-switch")
    person.page.wait_for_selector("text=This page cannot find this answer")


def test_a_connection_that_is_cut_is_said_in_the_language_of_the_page(person, service):
    person.expected = "ERR_CONNECTION_RESET"
    person.page.route("**/v1/chat/completions", lambda route: route.abort("connectionreset"))
    person.page.fill("#say", "Why?")
    person.page.keyboard.press("Enter")
    person.page.wait_for_selector("text=The connection to the server was lost.")


def test_layers_with_a_recurrent_state_have_no_maps(person, service):
    service._model = replace(service.model, recurrent_layers=(0, 2))
    ready(person)
    options = person.texts("#panel-heads [data-name=layer] option")
    assert options == ["Layer 1", "Layer 3"]
    assert person.text("#heads-at").startswith("Layer 3")
    person.page.locator(GRID).press("ArrowUp")
    person.wait("document.querySelector('#heads-at').innerText.startsWith('Layer 1')")
    person.page.locator(GRID).press("ArrowUp")
    assert person.text("#heads-at").startswith("Layer 1"), "there is none above"
    person.page.locator(GRID).press("ArrowDown")
    person.wait("document.querySelector('#heads-at').innerText.startsWith('Layer 3')")
