"""A chat in the browser: it streams, stops, is edited, and is there again."""

import re

from llm_lite.core.history import History
from tests.browser.site import site
from tests.server.scripted_service import ScriptedService

LONG = "word " * 400
MARKDOWN = r"""Some **bold** text.

$$\frac{a}{b} \quad \sum_{i=0}^n x_i$$

```python
def f(x):
    return x + 1
```

| planet | moons |
|---|---:|
| Mars | 2 |
"""
HOSTILE = """<script>window.acted = 1</script> <img src=x onerror="window.acted = 1">
[a](javascript:window.acted=1) ![p](http://127.0.0.1:9/x.png)

```"><img src=x onerror=window.acted=1>
<svg onload=window.acted=1>
```
"""


def test_an_answer_streams(person, service):
    service.delay = 0.05
    person.say("one two three four five six seven eight nine ten")
    person.wait("document.querySelector('.markdown')?.innerText.includes('two')")
    half = person.messages[-1]
    assert "ten" not in half
    person.answered()
    assert person.messages[-1] == "You said: one two three four five six seven eight nine ten"
    assert "tokens · " in person.text(".under .stats")
    assert person.conversations == ["one two three four five six seven eight nine ten"]
    person.wait("document.title.startsWith('one two three')")


def test_a_full_server_is_asked_again(person, service):
    service.most_waiting = 0
    person.expected = "429"
    person.say("Hello")
    person.page.wait_for_selector(".waiting")
    person.page.wait_for_timeout(300)
    service.most_waiting = 64
    person.answered()
    assert person.messages[-1] == "You said: Hello"


def test_who_waits_is_told_so(person, service):
    service.hold.clear()
    person.say("Hello")
    person.page.wait_for_selector(".message.assistant .end:not([hidden])")
    assert person.text(".message.assistant .end") in (
        "Reading the prompt: 0 of 0 tokens",
        *(f"Reading the prompt: 0 of {n} tokens" for n in range(10, 40)),
    )
    service.hold.set()
    person.answered()
    assert person.messages[-1] == "You said: Hello"


def test_markdown_is_drawn(person):
    person.ask(MARKDOWN)
    page = person.page
    assert page.inner_text(".markdown strong") == "bold"
    assert page.inner_text(".markdown td >> nth=1") == "2"
    formula = page.locator(".markdown math").bounding_box()
    assert formula["height"] > 25, "a fraction stands in two lines"
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.markdown td.right')).textAlign")
        == "right"
    )
    colors = page.evaluate(
        "[...document.querySelectorAll('.code code, .c-keyword')]"
        ".map((e) => getComputedStyle(e).color)"
    )
    assert len(set(colors)) == 2
    page.click(".code-bar button")
    assert page.evaluate("navigator.clipboard.readText()") == "def f(x):\n    return x + 1"
    page.click(".message.assistant .under [data-icon=copy]")
    assert page.evaluate("navigator.clipboard.readText()").startswith("You said: Some **bold**")


def test_nothing_that_is_said_acts(person):
    """Not even as an attempt that the policy stops: `check` finds no violation."""
    person.ask(HOSTILE)
    assert person.page.evaluate("window.acted") is None
    assert person.page.locator(".message img, .message script, .message svg").count() == 0
    assert "<script>window.acted" in person.messages[-1]


def test_stopping_with_the_button(person, service):
    service.delay = 0.03
    person.say(LONG)
    person.wait("document.querySelector('.markdown')?.innerText.includes('word word')")
    person.page.click("#send")
    person.page.wait_for_selector("#send[data-icon=send]")
    assert person.text(".message.assistant .end") == "Stopped."
    said = person.messages[-1]
    assert len(said) < len(LONG) / 2
    person.wait("fetch('/page/status').then((r) => r.json()).then((s) => s.serving.running === 0)")
    assert service.status().cancelled == 1
    person.page.reload()
    person.page.wait_for_selector(".message.assistant .end")
    assert person.text(".message.assistant .end") == "Stopped."
    assert person.messages[-1].strip() == said.strip()


def test_escape_stops(person, service):
    service.delay = 0.03
    person.say(LONG)
    person.wait("document.querySelector('.markdown')?.innerText.includes('word')")
    person.page.keyboard.press("Escape")
    person.page.wait_for_selector("#send[data-icon=send]")
    assert person.text(".message.assistant .end") == "Stopped."


def test_edit_and_regenerate_keep_versions(person):
    person.ask("First")
    person.page.click(".message.user [data-icon=edit]")
    person.page.fill(".edit textarea", "Second")
    person.page.click(".edit .button:not(.plain)")
    person.answered()
    assert person.messages == ["Second", "You said: Second"]
    person.page.click(".message.assistant [data-icon=regenerate]")
    person.page.wait_for_selector(".message.assistant .versions")
    person.answered()
    assert re.findall(r"\d", person.text(".message.assistant .versions")) == ["2", "2"]
    person.page.click(".message.user .versions [data-icon=left]")
    person.wait("document.querySelector('.said').innerText === 'First'")
    assert person.messages == ["First", "You said: First"]
    person.page.click(".message.user .versions [data-icon=right]")
    person.wait("document.querySelector('.said').innerText === 'Second'")


def test_an_edit_that_is_given_up_changes_nothing(person, service):
    person.ask("First")
    person.page.click(".message.user [data-icon=edit]")
    person.page.fill(".edit textarea", "Other")
    person.page.keyboard.press("Escape")
    assert person.messages == ["First", "You said: First"]
    assert len(service.requests) == 1


def test_the_whole_conversation_is_told(person, service):
    person.ask("First")
    person.ask("Second")
    told = [(message.role, message.content) for message in service.requests[-1].messages]
    assert told == [
        ("system", "You are a helpful assistant."),
        ("user", "First"),
        ("assistant", "You said: First"),
        ("user", "Second"),
    ]


def test_a_reload_shows_it_again(person):
    person.ask("First")
    person.ask("Second")
    before = person.messages
    person.page.reload()
    person.page.wait_for_selector(".message >> nth=3")
    person.answered()
    assert person.messages == before


def test_leaving_in_the_middle_keeps_what_was_said(person, service):
    service.delay = 0.03
    person.say(LONG)
    person.wait("document.querySelector('.markdown')?.innerText.split('word').length > 20")
    person.page.reload()
    person.page.wait_for_selector(".message.assistant .under button")
    assert person.messages[-1].count("word") >= 15
    assert person.text(".message.assistant .end") == "Stopped."


def test_another_conversation_meanwhile(person, service):
    service.delay = 0.03
    person.say("long " * 40)
    person.wait("document.querySelector('.markdown')?.innerText.includes('long')")
    person.page.click("#new-chat")
    person.ask("Short")
    assert person.messages == ["Short", "You said: Short"]
    person.page.click("#list .name >> text=long")
    person.answered()
    assert person.messages[-1].count("long") == 40


def test_the_window_and_the_page_share_conversations(person, history):
    window = History(history)
    begun = window.begin()
    said = window.add_message(begun.id, None, "From the window")
    window.add_message(begun.id, said.id, "An answer of the window", role="assistant")
    assert window.flush()
    person.page.wait_for_selector("#list .name")
    assert person.conversations == ["From the window"]
    person.page.click("#list .name")
    person.page.wait_for_selector(".message.assistant")
    person.ask("From the page")
    person.page.wait_for_timeout(600)
    kept = window.conversation(begun.id)
    assert [message.text for message in kept.messages][-2:] == [
        "From the page",
        "You said: From the page",
    ]
    window.close()


def test_the_list_of_conversations(person):
    person.ask("About whales")
    person.page.click("#new-chat")
    person.ask("About rivers")
    assert person.conversations == ["About rivers", "About whales"]
    person.page.hover("#list .row >> nth=1")
    person.page.click("#list .row >> nth=1 >> [data-icon=edit]")
    person.page.fill("#list .rename", "Sea animals")
    person.page.keyboard.press("Enter")
    person.page.wait_for_selector("text=Sea animals")
    person.page.click("#list .row >> nth=1 >> [data-icon=pin]", force=True)
    person.wait("document.querySelector('#list h2').innerText === 'Pinned'")
    person.page.fill("#search", "whales")
    person.page.wait_for_selector("#list mark")
    assert person.texts("#list mark")[0] == "whales"
    person.page.click("#list .name")
    person.wait("document.querySelector('.said').innerText === 'About whales'")
    person.page.fill("#search", "")
    person.wait("!document.querySelector('#list mark')")
    person.page.hover("#list .row >> nth=0")
    person.page.click("#list .row >> nth=0 >> [data-icon=trash]")
    person.wait("document.querySelectorAll('#list .name').length === 1")
    person.page.wait_for_selector(".welcome")
    person.page.click("#toast button")
    person.wait("document.querySelectorAll('#list .name').length === 2")
    person.wait("document.querySelector('.said')?.innerText === 'About whales'")


def test_settings_reach_the_request(person, service):
    person.page.click("#open-settings")
    person.page.fill("#set-max_tokens", "5")
    person.page.fill("#set-seed", "7")
    person.page.fill("#set-prompt", "Rhyme.")
    person.page.locator("#set-temperature").fill("1.2")
    person.page.click("dialog button[value=done]")
    person.ask("one two three four five six seven")
    asked = service.requests[-1]
    assert (asked.sampling.max_new_tokens, asked.sampling.seed) == (5, 7)
    assert asked.sampling.temperature == 1.2
    assert asked.messages[0].content == "Rhyme."
    assert person.text(".message.assistant .end") == "The limit of new tokens was reached."
    person.page.reload()
    person.page.wait_for_selector(".message")
    person.page.click("#open-settings")
    assert person.page.input_value("#set-max_tokens") == "5"
    assert person.page.input_value("#set-prompt") == "Rhyme."


def test_thoughts_are_folded(person, service):
    service.thinks = True
    person.ask("Why?")
    assert person.messages[-1] == "You said: Why?"
    assert person.text("details.thought summary") == "Thoughts"
    person.page.click("details.thought summary")
    assert "Let me see." in person.text("details.thought div")


def test_an_answer_that_fails_says_why_and_can_be_tried_again(person, service):
    service.fail_after = 3
    person.expected = "500"
    person.say("one two three four")
    person.page.wait_for_selector(".problem:not([hidden])")
    assert "the scripted answer fails here" in person.text(".problem")
    service.fail_after = None
    person.page.click(".problem button")
    person.wait("document.querySelector('.problem')?.hidden")
    person.answered()
    assert person.messages[-1] == "You said: one two three four"


def test_a_server_that_goes_and_comes_back(visit, browser, service, history):
    with site(service, history) as address:
        person = visit(address)
        person.ask("Before")
        port = int(address.rpartition(":")[2])
    person.expected = "ERR_"
    person.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    person.page.wait_for_selector("#notice:not([hidden])")
    assert "does not answer" in person.text("#notice")
    assert person.messages == ["Before", "You said: Before"]
    with site(service, history, port=port):
        person.page.wait_for_selector("#notice[hidden]", state="attached")
        person.ask("After")
        assert person.messages[-1] == "You said: After"
        person.page.goto("about:blank")


def test_without_a_model_the_page_says_so(visit, history, stack):
    address = stack.enter_context(site(None, history))
    person = visit(address)
    person.page.wait_for_selector(".welcome")
    assert person.text(".welcome h2") == "No model is loaded"
    person.page.fill("#say", "Hello")
    assert person.page.is_disabled("#send")


def test_a_key_is_asked_for_once(visit, history, stack):
    service = ScriptedService()
    stack.callback(service.close)
    address = stack.enter_context(site(service, history, api_key="secret"))
    person = visit(address, expected="401")
    person.page.wait_for_selector("dialog #key")
    person.page.fill("#key", "wrong")
    person.page.keyboard.press("Enter")
    person.wait("document.querySelector('#key-text')?.innerText.includes('did not take')")
    person.page.fill("#key", "secret")
    person.page.keyboard.press("Enter")
    person.page.wait_for_selector(".welcome .examples")
    person.ask("Hello")
    person.page.reload()
    person.page.wait_for_selector(".message.assistant")
    assert person.page.locator("dialog").count() == 0
    assert "secret" not in person.page.evaluate(
        "JSON.stringify(localStorage) + document.cookie + location.href"
    )


def test_a_history_that_cannot_be_saved_is_told_and_the_chat_goes_on(
    visit, service, stack, tmp_path
):
    (tmp_path / "file").write_text("no folder")
    address = stack.enter_context(site(service, tmp_path / "file" / "history.db"))
    person = visit(address)
    person.page.wait_for_selector("#notice:not([hidden])")
    assert "not being saved" in person.text("#notice")
    person.ask("Hello")
    assert person.messages == ["Hello", "You said: Hello"]
