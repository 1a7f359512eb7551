"""Chromium, a server with a scripted service, and a person at the page."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.browser.site import site
from tests.children import PATIENCE
from tests.server.scripted_service import ScriptedService

CHROMIUM = (
    os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
)
DESKTOP, PHONE = {"width": 1360, "height": 860}, {"width": 360, "height": 740}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as made:
        running = made.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


def _told(said: Any) -> str:
    return f"{said.text} {said.location.get('url', '')}"


class Person:
    """A tab, and what goes wrong in it."""

    def __init__(self, browser: Any, address: str, expected: str = "", **options: Any) -> None:
        options = {"viewport": DESKTOP, "locale": "en-US", "color_scheme": "dark", **options}
        self.address = address
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(1e3 * PATIENCE)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
        self.wrong: list[str] = []
        self.elsewhere: list[str] = []
        self.expected = expected  # of the console: what a test provokes
        self.page = self.context.new_page()
        self.page.add_init_script(
            "addEventListener('securitypolicyviolation', (event) =>"
            " console.error('policy: ' + event.violatedDirective + ' ' + event.blockedURI))"
        )
        self.page.on("console", lambda said: said.type == "error" and self._note(_told(said)))
        self.page.on("pageerror", lambda error: self._note(f"{error}"))
        self.page.on("request", lambda asked: self._look(asked.url))
        self.open()

    def _note(self, text: str) -> None:
        if not self.expected or self.expected not in text:
            self.wrong.append(text)

    def _look(self, url: str) -> None:
        if not url.startswith((self.address, "data:", "blob:")):
            self.elsewhere.append(url)

    def open(self, path: str = "/") -> None:
        self.page.goto(self.address + path)
        self.wait("document.querySelector('dialog, .welcome h2, .message, #notice:not([hidden])')")

    def wait(self, what: str) -> None:
        """Until an expression is true. The page's policy forbids Playwright's own way."""
        end = time.monotonic() + PATIENCE
        while not self.page.evaluate(what):
            assert time.monotonic() < end, what
            self.page.wait_for_timeout(20)

    def say(self, text: str) -> None:
        self.page.fill("#say", text)
        self.page.keyboard.press("Enter")

    def ask(self, text: str) -> None:
        """Say it, and wait for the whole answer."""
        before = self.page.locator(".message.assistant").count()
        self.say(text)
        self.page.wait_for_selector(f".message.assistant >> nth={before}")
        self.answered()

    def answered(self) -> None:
        """The answer has come, is saved and drawn."""
        self.page.wait_for_selector(".message.assistant >> nth=-1")
        self.page.wait_for_selector("#send[data-icon=send]")
        self.wait(
            "!document.querySelector('.markdown .plain') &&"
            " [...document.querySelectorAll('.assistant .under')].at(-1)?.querySelector('button')"
        )

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def texts(self, selector: str) -> list[str]:
        return list(self.page.locator(selector).all_inner_texts())

    @property
    def messages(self) -> list[str]:
        return self.texts(".message.user .said, .message.assistant .markdown")

    @property
    def conversations(self) -> list[str]:
        return self.texts("#list .name")

    def focused(self) -> str:
        return str(
            self.page.evaluate(
                "(({ id, ariaLabel, textContent }) => id || ariaLabel || textContent)"
                "(document.activeElement)"
            )
        )

    def check(self) -> None:
        assert self.wrong == []
        assert self.elsewhere == []

    def close(self) -> None:
        self.context.close()


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.fixture
def service(stack: ExitStack) -> ScriptedService:
    made = ScriptedService(delay=0.01)
    stack.callback(made.close)
    return made


@pytest.fixture
def address(service: ScriptedService, history: Path, stack: ExitStack) -> str:
    return stack.enter_context(site(service, history))


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Callable[..., Person]]:
    """`visit(viewport=…, locale=…)` opens the page; nothing may go wrong in it until the end."""
    people: list[Person] = []

    def open_page(at: str = address, **options: Any) -> Person:
        people.append(Person(browser, at, **options))
        return people[-1]

    yield open_page
    try:
        for person in people:
            person.check()
    finally:
        for person in people:
            person.close()


@pytest.fixture
def person(visit: Callable[..., Person]) -> Person:
    return visit()
