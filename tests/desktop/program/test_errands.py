"""Links of an answer lead to the system's browser, or to a sentence."""

import webbrowser

from llm_lite.desktop.app import program
from tests.children import PATIENCE

ADDRESS = "https://example.com/page"


def test_without_a_browser_the_address_is_told(monkeypatch):
    def none():
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "get", none)
    outcome = program.open_link(ADDRESS)
    assert outcome is not None
    assert outcome.failed
    assert ADDRESS in outcome.words


def test_a_browser_is_asked_on_a_thread_of_its_own(monkeypatch):
    import threading

    asked, told = [], threading.Event()

    class Browser:
        def open(self, address):
            asked.append((address, threading.current_thread() is threading.main_thread()))
            told.set()

    monkeypatch.setattr(webbrowser, "get", Browser)
    assert program.open_link(ADDRESS) is None
    assert told.wait(PATIENCE)
    assert asked == [(ADDRESS, False)]
