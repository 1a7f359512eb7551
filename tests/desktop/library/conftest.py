"""The page over an example of a machine, a hub and a queue."""

import pytest

from llm_lite.core.records import replace
from llm_lite.desktop.features.library.host import LibraryHost
from llm_lite.desktop.features.library.model import ShowLibrary
from tests.desktop.headless import READY
from tools.tour.example_models import LOCAL, ExampleServices


@pytest.fixture
def library(headless):
    """library(tab, services) -> the window, its page open and its list read."""

    def make(tab="local", services=None, size=(1280, 800), state=READY):
        model = replace(state.model, path=str(LOCAL[0].path)) if state.model else None
        one = headless(replace(state, model=model), size=size)
        one.services = services or ExampleServices()
        one.program.use("library", LibraryHost(one.services, lambda: None))
        one.program.hosts["library"].begin()
        one.program.do(ShowLibrary(True, tab))
        one.driver.wait("the list", lambda s: s.library.local is not None and s.library.jobs)
        one.driver.wait("the short list", lambda s: s.library.curated)
        one.driver.frames(2)
        one.done.clear()
        return one

    return make


@pytest.fixture
def found(library):
    """found(...) -> the window, with what a search of the hub has found."""

    def make(**more):
        one = library("find", **more)
        one.driver.click("library.runnable")
        one.driver.click("library.search")
        one.driver.wait("what was found", lambda s: s.library.found is not None)
        one.driver.frames(2)
        one.done.clear()
        return one

    return make
