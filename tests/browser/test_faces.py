"""Languages, themes, a phone's width, a keyboard alone, and assistive technology."""

import json

import pytest

from tests.browser.conftest import DESKTOP, PHONE

QUESTION = """Why is the sky **blue**?

```python
def f(x): return x  # a long line, wider than the screen of any phone is
```"""


def ground(person):
    return person.page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_korean_follows_the_browser_and_can_be_switched(visit):
    person = visit(locale="ko-KR")
    assert person.page.get_attribute("html", "lang") == "ko"
    assert person.page.get_attribute("#say", "placeholder") == "무엇이든 물어보세요"
    person.page.click("#switch-language")
    assert person.page.get_attribute("#say", "placeholder") == "Ask something"
    person.page.reload()
    person.page.wait_for_selector(".welcome")
    assert person.page.get_attribute("html", "lang") == "en"
    person.page.click("#open-settings")
    person.page.select_option("#set-language", "ko")
    person.page.wait_for_selector("dialog >> text=시스템 프롬프트")


def test_no_english_is_left_in_korean(visit):
    person = visit(locale="ko-KR")
    person.ask("하늘은 왜 파란가요?")
    person.page.click("#xray-switch")
    person.page.click("#inside-open")
    person.page.wait_for_selector("#heads-at >> text=레이어")
    shown = person.page.evaluate(
        "['header', '#xray-bar', '.tabs', '#panel-heads', '#composer']"
        ".map((e) => document.querySelector(e).innerText).join(' ')"
    )
    for word in ("Layer", "Head", "Mean", "Attention", "Position", "Likelihood", "Enter sends"):
        assert word not in shown


def test_the_theme_follows_the_system_and_can_be_switched(visit):
    person = visit(color_scheme="light")
    assert ground(person) == "rgb(255, 255, 255)"
    person.page.click("#switch-theme")
    assert ground(person) == "rgb(22, 24, 29)"
    person.page.reload()
    person.page.wait_for_selector(".welcome")
    assert ground(person) == "rgb(22, 24, 29)"
    assert (
        visit(color_scheme="dark").page.evaluate("getComputedStyle(document.body).backgroundColor")
        == "rgb(22, 24, 29)"
    )


def test_a_phone_has_room_for_all(visit):
    person = visit(viewport=PHONE, has_touch=True, is_mobile=True)
    page = person.page

    def fits():
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        assert page.evaluate(
            "(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)"
            "(document.querySelector('#scroll'))"
        )

    fits()
    person.page.fill("#say", QUESTION)
    page.tap("#send")
    person.answered()
    fits()
    page.tap("#sidebar-open")
    assert page.is_visible("#list .name")
    page.tap("#list .name")
    page.wait_for_selector("#app.no-sidebar")
    page.tap("#xray-switch")
    page.wait_for_selector(".stream.prompt")
    fits()
    page.tap("#inside-open")
    person.wait("document.querySelector('#heads-at')?.innerText.startsWith('Layer')")
    box = page.locator("#inside").bounding_box()
    assert (box["x"], box["width"]) == (0, PHONE["width"])
    page.tap("#tab-engine")
    page.tap("#inside-close")
    page.tap("#sidebar-open")
    page.tap("#open-settings")
    dialog = page.locator("dialog").bounding_box()
    assert dialog["x"] >= 0 and dialog["x"] + dialog["width"] <= PHONE["width"]
    assert dialog["y"] + dialog["height"] <= PHONE["height"]
    assert page.is_visible("dialog button[value=done]")


def test_targets_of_a_finger_are_large_enough(visit):
    person = visit(viewport=PHONE, has_touch=True, is_mobile=True)
    person.ask("Hello")
    small = person.page.evaluate(
        "[...document.querySelectorAll('main button')].filter((b) => b.offsetParent"
        " && (b.offsetWidth < 24 || b.offsetHeight < 24)).map((b) => b.ariaLabel || b.innerText)"
    )
    assert small == []


def test_all_by_keyboard(person):
    page, press = person.page, person.page.keyboard.press
    press("Tab")
    assert person.focused() == "skip"
    press("Enter")
    assert person.focused() == "say"
    page.keyboard.type("First line")
    press("Shift+Enter")
    page.keyboard.type("second line")
    press("Enter")
    person.answered()
    assert person.messages[0] == "First line\nsecond line"
    for _ in range(30):
        press("Shift+Tab")
        if person.focused() == "Regenerate":
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    press("Enter")
    page.wait_for_selector(".message.assistant .versions")
    person.answered()
    press("/")
    assert person.focused() == "say"
    press("Alt+i")
    assert page.is_visible("#inside")
    press("Alt+i")
    assert page.is_hidden("#inside")
    press("Alt+b")
    assert page.is_hidden("#new-chat")
    press("Alt+b")
    press("Alt+n")
    page.wait_for_selector(".welcome")
    assert person.focused() == "say"
    page.evaluate("document.activeElement.blur()")
    press("?")
    page.wait_for_selector("dialog .keys")
    press("Escape")
    person.wait("!document.querySelector('dialog')")


def test_every_stop_of_the_tab_key_can_be_seen(person):
    person.ask("Hello")
    unseen, stops = [], set()
    for _ in range(40):
        person.page.keyboard.press("Tab")
        name, outlined = person.page.evaluate(
            "(() => { const e = document.activeElement;"
            " const places = [e, e.closest('.box, .search') || e].map((x) => getComputedStyle(x));"
            " return [e === document.body ? 'body' : e.id || e.ariaLabel || e.innerText,"
            " places.some((x) => x.outlineStyle !== 'none' && parseFloat(x.outlineWidth) >= 2)];"
            " })()"
        )
        stops.add(name)
        if not outlined and name != "body":
            unseen.append(name)
    assert {"new-chat", "search", "open-settings", "xray-switch", "say", "Regenerate"} <= stops
    assert unseen == []


def test_a_drawer_holds_the_focus_and_gives_it_back(visit):
    person = visit(viewport=PHONE)
    person.page.focus("#inside-open")
    person.page.keyboard.press("Enter")
    assert person.focused() == "tab-heads"
    assert person.page.evaluate("document.querySelector('main').inert")
    person.page.keyboard.press("Escape")
    assert person.focused() == "inside-open"
    assert not person.page.evaluate("document.querySelector('main').inert")


def test_a_screen_reader_hears_the_answer_once(person, service):
    service.delay = 0.03
    person.page.evaluate(
        "window.heard = []; const place = document.getElementById('announce');"
        "new MutationObserver(() => place.textContent && heard.push(place.textContent))"
        ".observe(place, { childList: true, characterData: true, subtree: true })"
    )
    person.ask("one two three four five")
    person.wait("heard.length >= 2")
    assert person.page.evaluate("heard") == [
        "The model is answering.",
        "The answer: You said: one two three four five",
    ]
    assert (
        person.page.evaluate(
            "document.querySelectorAll('#messages[aria-live], #messages [aria-live]').length"
        )
        == 0
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_axe_finds_nothing_serious(visit, scheme, viewport):
    """Of a welcome, a chat, its X-ray in both tints, each tab, a menu and both dialogs."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is missing"
    ).Axe()
    person = visit(color_scheme=scheme, viewport=viewport)
    page = person.page
    found = []

    def look(where):
        page.wait_for_timeout(250)
        for one in axe.run(page).response["violations"]:
            if one["impact"] in ("serious", "critical"):
                found.append((where, one["id"], [node["html"][:120] for node in one["nodes"]][:3]))

    look("welcome")
    person.ask(QUESTION)
    look("chat")
    page.click(".message.user [data-icon=edit]")
    look("edit")
    page.click(".edit .plain")
    page.click("#xray-switch")
    page.wait_for_selector(".stream.prompt")
    look("likelihood")
    page.click("#xray-bar .segments button >> nth=1")
    page.focus(".tok[tabindex='0']")
    page.wait_for_selector("#card h4 >> text=Looks most at")
    look("attention")
    page.click("#inside-open")
    person.wait("document.querySelector('#heads-at')?.innerText.startsWith('Layer')")
    for tab in ("heads", "lens", "engine"):
        page.click(f"#tab-{tab}")
        look(tab)
    page.click("#inside-close")
    if viewport is PHONE:
        page.click("#sidebar-open")
        look("menu")
    for button in ("open-settings", "open-keys"):
        page.click(f"#{button}")
        look(button)
        page.keyboard.press("Escape")
    assert found == [], json.dumps(found, indent=1)
