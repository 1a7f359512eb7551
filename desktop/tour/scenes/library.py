"""The page of models: what lies here, what a hub has, what fits, the queue. All of it is an example
(`desktop/tour/example_models.py`): no disk is looked through, no network is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from llm_lite.core.records import replace
from llm_lite.desktop.features.library.host import LibraryHost
from llm_lite.desktop.features.library.model import (
    ChooseLocal,
    ChooseRepo,
    SetFitOptions,
    SetSearch,
)
from llm_lite.desktop.features.library.state import LibraryState
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.tour.example_models import FOUND, FREE, LOCAL, ExampleServices
from llm_lite.desktop.tour.input_driver import PATIENCE, InputDriver

Picture = Callable[[str], None]
SOURCE, BROKEN = "qwen3-4b-instruct", "granite-3.3-2b-instruct"


def look_at_library(driver: InputDriver, picture: Picture, name: str, after: str = "") -> None:
    """Show the page of models and its tabs, from the rail and back to the conversation."""
    program, kept = driver.program, driver.state
    model = kept.model
    used = LOCAL[0] if model is None else replace(LOCAL[0], path=Path(model.path))
    services = ExampleServices((used, *LOCAL[1:]))
    host = LibraryHost(services, lambda: None)
    program.use("library", host)
    host.begin()
    driver.click("rail.library")
    driver.wait(
        "the list", lambda s: s.library.local is not None and bool(s.library.jobs), PATIENCE
    )
    driver.wait("the short list", lambda s: bool(s.library.curated), PATIENCE)
    program.state = replace(driver.state, memory_available=FREE)
    _look_at_local(driver, picture, name, after)
    _look_for_more(driver, picture, name, after)
    driver.click("library.tab.queue")
    driver.leave()
    picture(f"{name}-queue{after}")
    driver.click("library.close")
    host.close()
    program.hosts.pop("library", None)
    memory = kept.memory_available
    program.state = replace(driver.state, library=LibraryState(), memory_available=memory)
    driver.frames(2)


def _look_at_local(driver: InputDriver, picture: Picture, name: str, after: str) -> None:
    driver.leave()
    picture(f"{name}-local{after}")
    driver.click(f"library.local.{SOURCE}")
    _fits(driver)
    driver.leave()
    picture(f"{name}-details{after}")
    driver.click("library.remove.open")
    driver.wait("the sizes", lambda s: s.library.removal is not None, PATIENCE)
    driver.leave()
    picture(f"{name}-delete{after}")
    driver.click("library.remove.close")
    driver.click("library.quantize.open")
    driver.leave()
    picture(f"{name}-quantize{after}")
    driver.click("library.quantize.close")
    driver.program.do(ChooseLocal(BROKEN))
    driver.leave()
    picture(f"{name}-broken{after}")


def _look_for_more(driver: InputDriver, picture: Picture, name: str, after: str) -> None:
    program = driver.program
    driver.click("library.tab.find")
    driver.leave()
    picture(f"{name}-find{after}")
    search = replace(driver.state.library.search, words="qwen3 4b", runnable=False)
    program.do(SetSearch(search))
    driver.frames(2)
    driver.click("library.search")
    driver.wait("what was found", lambda s: s.library.found is not None, PATIENCE)
    driver.click(f"library.card.{FOUND[0].repo}")
    _fits(driver)
    driver.leave()
    picture(f"{name}-found{after}")
    program.do(SetFitOptions("fp16", 32_768))
    _fits(driver)
    driver.point("library.fit.context")
    driver.wheel(-20)
    driver.leave()
    picture(f"{name}-fit{after}")
    program.do(SetFitOptions("as-stored", 4096))
    program.do(ChooseRepo(""))
    driver.frames(2)


def _fits(driver: InputDriver) -> None:
    def are_known(state: AppState) -> bool:
        return any(q.mode == state.library.mode for q in state.library.fits)

    driver.wait("the fits", are_known, PATIENCE)
    driver.frames(3)
