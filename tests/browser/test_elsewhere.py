"""The page in a folder of a proxy, with keys of input methods, and in texts that run leftwards."""

from tests.browser.proxy import proxied

ARABIC = "مرحبا بالعالم"


def test_the_page_works_in_a_folder_of_a_proxy(visit, address):
    """Nothing is asked outside of it: `visit` looks at every request."""
    with proxied(address) as there:
        person = visit(there)
        person.ask("Hello **there**")
        assert person.messages == ["Hello **there**", "You said: Hello there"]
        person.page.reload()
        person.wait("document.querySelectorAll('.message').length == 2")
        person.page.keyboard.press("Alt+x")
        person.wait("!document.querySelector('#tokens').hidden")
        assert person.page.evaluate("document.fonts.ready.then(() => document.fonts.size)")
        loaded = "[...document.fonts].filter((font) => font.status == 'loaded').length"
        assert person.page.evaluate(loaded) > 0


SAFARI = """(selector) => {
  const field = document.querySelector(selector);
  const press = (key, keyCode) => field.dispatchEvent(
    new KeyboardEvent('keydown', { key, keyCode, bubbles: true, cancelable: true }));
  press('Enter', 229);
  press('Escape', 229);
}"""


def test_the_enter_that_ends_a_composition_of_safari_sends_nothing(person):
    person.ask("안녕")
    person.page.fill("#say", "하세요")
    person.page.evaluate(SAFARI, "#say")
    assert person.page.input_value("#say") == "하세요"
    person.page.fill("#say", "")
    person.page.fill("#search", "안")
    person.page.evaluate(SAFARI, "#search")
    assert person.page.input_value("#search") == "안"
    person.page.fill("#search", "")
    person.page.wait_for_selector("#list [data-icon=edit]", state="attached")
    for button, field in ((".message.user [data-icon=edit]", "form.edit textarea"),
                          ("#list [data-icon=edit]", "input.rename")):  # fmt: skip
        person.page.eval_on_selector(button, "(one) => one.click()")
        person.page.wait_for_selector(field)
        person.page.evaluate(SAFARI, field)
        assert person.page.locator(field).count() == 1, field
        person.page.press(field, "Escape")
    assert len(person.messages) == 2


def test_texts_run_as_their_letters_do(person):
    person.ask(f"{ARABIC}\n\n- {ARABIC} `code(x)`\n\nHello")
    way = "(selector) => getComputedStyle(document.querySelector(selector)).direction"
    assert person.page.evaluate(way, ".message.user .said") == "rtl"
    assert person.page.evaluate(way, ".markdown ul") == "rtl"
    assert person.page.evaluate(way, ".markdown ul code") == "ltr"
    assert person.page.evaluate(way, ".markdown > p:last-child") == "ltr"
    person.page.fill("#say", ARABIC)
    assert person.page.evaluate(way, "#say") == "rtl"
    person.page.fill("#say", "Hello")
    assert person.page.evaluate(way, "#say") == "ltr"
