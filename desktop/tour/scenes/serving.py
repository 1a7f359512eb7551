"""The server of the window, for the tour: it is told of, not run, so that no port is opened."""

from __future__ import annotations

from collections.abc import Callable

from llm_lite.core.messages import ServedRequest, ServingStatus
from llm_lite.core.records import replace
from llm_lite.desktop.features.serving.model import (
    CancelServed,
    HideKey,
    ServerBegan,
    ServerReported,
    SetServing,
)
from llm_lite.desktop.features.serving.state import ServingChoice, ServingState
from llm_lite.desktop.tour.input_driver import InputDriver

Picture = Callable[[str], None]
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
    began = ServingState(choice, "starting", asked=True, answers=True)  # the engine is not told
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
