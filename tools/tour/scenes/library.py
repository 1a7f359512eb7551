"""The pages of models and of the server. All of it is an example
(`tools/tour/example_models.py`): no disk is searched, no network is used, no port is opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from llm_lite.core.messages import ServedRequest, ServingStatus, StartServing
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
from llm_lite.desktop.features.serving.model import (
    CancelServed,
    HideKey,
    ServerBegan,
    ServerReported,
    SetServing,
)
from llm_lite.desktop.features.serving.state import ServingChoice, ServingState
from tools.tour.example_models import FOUND, FREE, LOCAL, ExampleServices
from tools.tour.input_driver import PATIENCE, InputDriver

Picture = Callable[[str], None]
SOURCE, BROKEN = "qwen3-4b-instruct", "granite-3.3-2b-instruct"
KEY = "sk-aTourHasNoServerAndThisIsNoKey"
REQUESTS = (
    ServedRequest(41, "chatcmpl-41", "127.0.0.1 notebook", False, 64, 64, 212, 6.4),
    ServedRequest(42, "chatcmpl-42", "127.0.0.1 my editor", False, 900, 900, 31, 1.8),
    ServedRequest(43, "chatcmpl-43", "192.168.1.23 phone", False, 2048, 1280, 0, 0.9),
    ServedRequest(44, "chatcmpl-44", "192.168.1.7 OpenAI/Python 2.8.0", False, 18, 18, 5, 0.3),
    ServedRequest(45, "chatcmpl-45", "192.168.1.7 OpenAI/Python 2.8.0", True, 0, 0, 0, 0.2),
)
STATUS = ServingStatus(
    "SmolLM2",
    parallel=4,
    most_waiting=64,
    context=8192,
    pages=256,
    pages_used=37,
    pages_kept=92,
    page_tokens=128,
    requests=REQUESTS,
    finished=118,
    cancelled=3,
    refused=2,
    prompt_tokens=48_230,
    cached_tokens=31_744,
    new_tokens=20_417,
)


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


def look_at_serving(driver: InputDriver, picture: Picture, name: str, after: str = "") -> None:
    """Show the server off, offered to the network, just started, with requests, and as a sign in
    the window."""
    program, before = driver.program, driver.state.serving
    driver.click("rail.serving")
    driver.leave()
    picture(f"{name}-serving-off{after}")
    program.do(SetServing(ServingChoice("network")))
    driver.frames(2)
    driver.leave()
    picture(f"{name}-serving-network{after}")
    _begin(driver)
    driver.leave()
    picture(f"{name}-serving-key{after}")
    program.do(HideKey())
    _answer(driver)
    program.do(CancelServed(42))
    driver.frames(3)
    driver.leave()
    picture(f"{name}-serving-requests{after}")
    driver.click("serving.close")
    driver.leave()
    picture(f"{name}-serving-sign{after}")
    program.state = replace(driver.state, serving=before)
    driver.frames(2)


def _begin(driver: InputDriver) -> None:
    """Set the state of a server that has started and has received no requests yet."""
    choice = driver.state.serving.choice
    began = ServingState(choice, "starting", asked=StartServing(), answers=True)  # not the engine's
    driver.program.state = replace(driver.state, serving=began)
    others = ("http://192.168.1.20:8080",)
    driver.program.do(ServerBegan("http://127.0.0.1:8080", others, KEY[-4:], KEY))
    driver.program.do(ServerReported(replace(STATUS, requests=(), pages_used=0, finished=0)))
    driver.frames(3)


def _answer(driver: InputDriver) -> None:
    """Set requests and three reports of their tokens, from which the speed is computed."""
    serving, now = driver.state.serving, driver.program.interface.ui.now
    for share in (0.0, 0.5, 1.0):
        requests = tuple(
            replace(r, new_tokens=max(1, round(r.new_tokens * (0.8 + 0.2 * share))))
            if r.new_tokens
            else r
            for r in REQUESTS
        )
        serving = serving.with_status(replace(STATUS, requests=requests), now - 1 + share)
    driver.program.state = replace(driver.state, serving=serving)
