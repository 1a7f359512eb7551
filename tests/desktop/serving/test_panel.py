"""The panel that serves the model, its sign in the status bar, and what it costs while off."""

import subprocess
import sys

import pytest
from imgui_bundle import imgui

from llm_lite.core.messages import (
    Ended,
    ServedRequest,
    ServingChanged,
    ServingStatus,
    StartServing,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.commands.table import BY_NAME
from llm_lite.desktop.features.program.act import act, due
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.model import OpenLink
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.serving import sign
from llm_lite.desktop.features.serving.model import (
    CancelServed,
    HideKey,
    RenewKey,
    ServerBegan,
    ServerEnded,
    ServerReported,
    SetServing,
    SwitchServing,
)
from llm_lite.desktop.features.serving.running import (
    MOST_SHOWN,
    counted,
    curl_of,
    progress_of,
    ready_words,
    rows,
)
from llm_lite.desktop.features.serving.state import ServingChoice, ServingState
from tests.desktop.headless import READY
from tests.paths import ROOT


def served(number, waiting=False, tokens=0, client="127.0.0.1 editor", seconds=2.0):
    return ServedRequest(number, f"r{number}", client, waiting, 100, 40, tokens, seconds)


def status(*requests, **counts):
    return ServingStatus("m", 4, 64, 8192, 256, 30, 60, 128, requests, **counts)


def test_names_are_typed_and_what_is_none_is_told(headless):
    one = headless(READY, size=(1280, 1100))
    one.driver.click("rail.serving")
    one.driver.click("serving.names")
    one.driver.type("nas.local *.org")
    one.driver.press(imgui.Key.tab)
    one.driver.frames(2)
    assert one.state.serving.choice.names == "nas.local *.org"
    assert one.state.serving.choice.wrong_name == "*.org"
    assert one.driver.shows("serving.names.wrong")


def shown(headless, *requests, **changes):
    """The window with a server that is said to be on, and its panel open."""
    one = headless(READY, size=(1280, 1100))
    serving = replace(
        ServingState(ServingChoice()), phase="on", asked=StartServing(), answers=True,
        address="http://127.0.0.1:8080", status=status(*requests), **changes,
    )  # fmt: skip
    one.program.state = replace(one.state, serving=serving)
    one.driver.frames(2)
    one.driver.click("rail.serving")
    one.driver.frames(2)
    one.done.clear()
    return one


def test_what_is_off_can_be_chosen_and_switched_on(headless):
    one = headless(READY, size=(1280, 1100))
    one.driver.click("rail.serving")
    one.driver.click("serving.key")
    one.driver.click("serving.reach.network")
    one.driver.frames(2)
    assert one.state.serving.choice == ServingChoice("network", asks_key=True)
    assert not one.driver.shows("serving.key")  # the network has one in any case
    one.driver.click("serving.port")
    one.driver.press(imgui.Key.mod_ctrl, imgui.Key.a)
    one.driver.type("9123")
    one.driver.press(imgui.Key.tab)
    one.driver.click("serving.start")
    assert one.state.serving.choice.port == 9123 and one.state.serving.choice.at_start
    one.driver.click("serving.on")
    assert one.did(SwitchServing) == [SwitchServing(True)]


def test_the_palette_finds_it(headless):
    one = headless(READY, size=(1280, 900))
    BY_NAME["serving"].run(one.state, one.ui)
    one.driver.frames(3)
    assert one.driver.shows("serving.on")
    stop = BY_NAME["stop_serving"]
    assert not stop.when(one.state, one.ui)
    on = replace(one.state, serving=replace(one.state.serving, phase="on"))
    assert stop.when(on, one.ui) and stop.run(on, one.ui) == [SwitchServing(False)]


def test_addresses_are_copied_and_opened(headless):
    one = shown(headless, others=("http://10.0.0.5:8080",))
    one.driver.click("serving.address")
    assert imgui.get_clipboard_text() == "http://127.0.0.1:8080"
    one.driver.click("serving.base")
    assert imgui.get_clipboard_text() == "http://127.0.0.1:8080/v1"
    one.driver.click("serving.other.0")
    assert imgui.get_clipboard_text() == "http://10.0.0.5:8080"
    one.driver.click("serving.curl")
    assert imgui.get_clipboard_text() == curl_of(one.state.serving)
    opened = []
    one.program.on_open_link = opened.append
    one.driver.click("serving.page")
    assert one.did(OpenLink) == [OpenLink("http://127.0.0.1:8080")]
    assert opened == ["http://127.0.0.1:8080"]


def test_a_new_key_is_shown_until_it_was_seen(headless):
    one = shown(headless, key_end="wxyz", fresh_key="sk-abcdefghijklmnopwxyz")
    assert "Bearer sk-abcdefghijklmnopwxyz" in curl_of(one.state.serving)
    one.driver.click("serving.fresh")
    assert imgui.get_clipboard_text() == "sk-abcdefghijklmnopwxyz"
    one.driver.click("serving.seen")
    one.driver.frames(2)
    assert one.did(HideKey) and not one.driver.shows("serving.fresh")
    assert "Bearer YOUR_KEY" in curl_of(one.state.serving)
    one.driver.click("serving.renew")
    assert one.did(RenewKey)
    assert "Bearer" not in curl_of(replace(one.state.serving, key_end=""))


def test_requests_are_listed_and_cancelled(headless):
    many = [served(n, waiting=n > 4, tokens=5) for n in range(1, 20)]
    one = shown(headless, *many)
    rows_shown = [n for n in range(1, 20) if one.driver.shows(f"serving.request.{n}")]
    assert rows_shown == list(range(1, MOST_SHOWN + 1))
    one.driver.click("serving.request.2.cancel")
    assert one.did(CancelServed) == [CancelServed(2)]
    one.done.clear()
    one.driver.frames(2)
    one.driver.click("serving.request.2.cancel")  # it is ending
    assert one.done == []
    one.driver.click("serving.off")
    assert one.did(SwitchServing) == [SwitchServing(False)]


def test_a_clients_name_is_no_way_to_forge_a_line(headless):
    hostile = "10.0.0.9 \x1b[2J\u202eevil\nforged " + "long " * 200
    one = shown(headless, served(1, tokens=3, client=hostile), served(2, client=""))
    assert one.driver.shows("serving.request.2.cancel")


def test_words_of_requests():
    serving = ServingState().with_status(status(served(1, tokens=10)), 100.0)
    everyone = (served(1, tokens=40), served(2), served(3, waiting=True), served(4, tokens=2))
    serving = serving.with_status(status(*everyone), 101.0)
    serving = replace(serving, cancelling=frozenset({4}))
    words = [progress_of(serving, request) for request in everyone]
    assert words[0] == "40 tokens  ·  30.0 tok/s  ·  2 s"
    assert words[1] == "reads its prompt  ·  40 / 100  ·  2 s"
    assert words[2:] == ["waits  ·  2 s", "ends"]
    assert counted(serving) == "3 of 4 concurrent  ·  1 waits  ·  30.0 tok/s"
    totals = status(finished=7, refused=1, prompt_tokens=200, cached_tokens=50, new_tokens=1234)
    assert [row[1] for row in rows(totals)] == [
        "7 answered  ·  1 refused", "200 tokens  ·  25% from the cache", "1,234 tokens",
    ]  # fmt: skip


def test_a_speed_is_of_the_last_seconds_and_not_of_the_prompt():
    serving = ServingState()
    for second, tokens in ((0, 0), (1, 0), (2, 1), (3, 21), (4, 41), (60, 42), (61, 43)):
        serving = serving.with_status(status(served(1, tokens=tokens)), float(second))
        if second == 4:
            assert serving.rate == pytest.approx(20.0)
    assert serving.rate == pytest.approx(1.0)
    assert len(serving.paces[0].samples) <= 4
    assert serving.with_status(status(), 62.0).paces == ()


def test_the_sign_is_there_only_while_it_serves(headless):
    assert sign.label(ServingState()) == "" == sign.label(ServingState(phase="starting"))
    one = headless(READY, size=(1280, 900))
    assert not one.driver.shows("status.serving")
    executor = one.driver.rect("status.executor")
    on = replace(one.state.serving, phase="on", status=status(served(1), served(2, waiting=True)))
    one.program.state = replace(one.state, serving=on)
    one.driver.frames(2)
    assert sign.label(on).endswith("Serving 1 request +1")
    low, right = one.driver.rect("status.serving")[0], one.driver.rect("status.serving")[2]
    assert one.driver.rect("status.executor")[2] < low < right < one.driver.rect("status.prompt")[0]
    assert one.driver.rect("status.executor")[0] == executor[0]
    one.driver.click("status.serving")
    one.driver.frames(2)
    assert one.driver.shows("serving.off")


def test_a_model_that_does_not_answer_is_said():
    on = replace(READY, serving=ServingState(phase="on", answers=True))
    assert ready_words(replace(on, serving=replace(on.serving, status=status()))) == "m answers."
    assert ready_words(on) == f"{READY.model.name} answers."
    waits = replace(on, serving=replace(on.serving, answers=False))
    assert "Not ready" in ready_words(waits)
    assert "No model is loaded" in ready_words(replace(on, model=None))


def test_actions_in_any_order_leave_a_state_that_can_go_on():
    actions = (
        SwitchServing(True), SwitchServing(False), ServerBegan("http://a", (), "wxyz", "key"),
        ServerReported(status(served(1))), ServerReported(None), ServerEnded(),
        ServerEnded("a problem"),
        SetServing(ServingChoice("network")), CancelServed(9), HideKey(), RenewKey(),
    )  # fmt: skip
    for first in actions:
        for second in actions:
            state = READY
            for action in (first, second):
                state, _ = act(action, state, 1.0)
            state, _ = due(state)
            for event in (ServingChanged(True, status(served(1))), ServingChanged(False)):
                state = apply(event, state, 2.0)
            state, _ = act(ServerEnded(), state, 3.0)
            assert state.serving.phase == "off" and state.serving.fresh_key == ""


def test_what_a_failed_server_said_stays_though_the_engine_answers_late():
    state, _ = act(SwitchServing(True), READY, 1.0)
    state, _ = act(ServerEnded("the port is taken"), state, 2.0)
    state = apply(ServingChanged(True, status()), state, 3.0)  # asked for before the server failed
    assert state.serving.problem == "the port is taken"
    assert state.serving.phase == "off" and not state.serving.answers


def test_a_start_that_another_followed_ends_nothing():
    state, _ = act(SwitchServing(True), READY, 1.0)
    state, (start,) = due(state)
    assert apply(Ended("no model is loaded"), state, 2.0, StartServing()) == state
    state = apply(Ended("no memory is left"), state, 3.0, start)
    assert (state.serving.phase, state.serving.problem) == ("stopping", "no memory is left")


def test_off_it_costs_nothing():
    """No module of it is imported by the window, a frame or a look at what happened."""
    code = (
        "import sys\n"
        "from tests.desktop.headless import Headless\n"
        "import llm_lite.desktop.app.app\n"
        "one = Headless(); one.driver.frames(3); one.driver.click('rail.serving')\n"
        "one.driver.frames(3); assert one.driver.shows('serving.on')\n"
        "names = ('uvicorn', 'starlette', 'llm_lite.server', 'llm_lite.core.serving',\n"
        "         'llm_lite.desktop.features.serving.host')\n"
        "print([name for name in names if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stdout + done.stderr
    assert AppState().serving == ServingState()
