"""A model that calls functions, for the tour: answers are written here, as the tour's own model may
know none, and the server is told of, not run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from llm_lite.core.messages import GenerationStats, ServerSpec, ToolSpec
from llm_lite.core.tools.calls import read_calls
from llm_lite.desktop.actions.tools.calling import CallAnswered, RunCall, UnfoldResult
from llm_lite.desktop.actions.tools.declaring import SetServer, TellServer, TellTools
from llm_lite.desktop.state.state import Message
from llm_lite.desktop.state.tools.tools_state import ToolReply
from llm_lite.desktop.tour.input_driver import InputDriver
from llm_lite.desktop.tour.scenes.thoughts import look_at_thoughts

Picture = Callable[[str], None]
QUESTION = "What do I need to wear in Oslo tomorrow?"
CALLS = """I will look at the forecast and at your calendar.
<tool_call>
{"name": "forecast", "arguments": {"city": "Oslo", "days": 1}}
</tool_call>
<tool_call>
{"name": "get_weather", "arguments": {"city": "Oslo", "unit": "celsius"}}
</tool_call>"""
RESULT = '{\n  "low": -6,\n  "high": 1,\n  "snow_mm": 4,\n  "wind_m_s": 3.2\n}'
SAID = "Tomorrow it will be between **-6 and 1 degrees**, with a little snow: a coat, and boots."
SPEC = ServerSpec("weather-station", 'python3 -m weather_station --units "metric, both"')
TOOLS = (
    ToolSpec("forecast", "The weather of the days to come.", '{"type": "object"}'),
    ToolSpec("stations", "Where it is measured.", '{"type": "object"}'),
)


def look_at_answers(driver: InputDriver, picture: Picture, name: str, after: str = "") -> None:
    """Answers that are more than text: with thoughts, and with calls."""
    look_at_thoughts(driver, picture, f"{name}-thoughts{after}")
    kept = driver.state
    _look_at_tools(driver, picture, f"{name}-tools{after}")
    driver.program.state = replace(kept, next_request=driver.state.next_request)
    driver.frames(2)


def _look_at_tools(driver: InputDriver, picture: Picture, name: str) -> None:
    """The panel, a call that asks, one that runs, and a result that is unfolded."""
    program = driver.program
    model = driver.state.model
    assert model is not None
    program.do(TellTools("", (SPEC,)))
    driver.click("rail.tools")
    driver.leave()
    picture(f"{name}-not-known")
    program.state = replace(driver.state, model=replace(model, tool_style="tags"))
    driver.frames(2)
    driver.click("tools.tab.declare")
    driver.click("tools.example")
    driver.leave()
    picture(f"{name}-declare")
    driver.click("tools.tab.servers")
    driver.click("tools.server.weather-station.start")
    driver.leave()
    picture(f"{name}-start")
    driver.click("tools.start_not")
    program.do(SetServer(SPEC))
    program.do(TellServer(SPEC.name, "on", TOOLS))
    driver.frames(2)
    driver.click("tools.tab.offer")
    driver.leave()
    picture(f"{name}-offered")
    driver.click("tools.close")
    split = read_calls("tags", CALLS)
    stats = GenerationStats(310, 0, 74, 400.0, 25.0, 120.0, 384)
    asks = Message("assistant", split.said, stop_reason="end", stats=stats, calls=split)
    messages = (Message("user", QUESTION), asks)
    program.state = replace(driver.state, messages=messages)
    driver.leave()
    picture(f"{name}-asks")
    program.do(RunCall(0))
    driver.frames(2)
    picture(f"{name}-runs")
    program.do(CallAnswered(asks.key, 0, RESULT, 0.31, False))
    driver.frames(2)
    driver.click("call.1.1.hand")
    driver.click("call.1.1.text")
    driver.type('{"degrees": -2}')
    driver.leave()
    picture(f"{name}-hand")
    told = (
        Message("tool", RESULT, reply=ToolReply("forecast", "server", SPEC.name, 0.31)),
        Message("tool", '{"degrees": -2}', reply=ToolReply("get_weather", "hand")),
        Message("assistant", SAID, stop_reason="end", stats=stats),
    )
    program.state = replace(driver.state, messages=(*messages, *told))
    program.do(UnfoldResult(2, True))
    driver.leave()
    picture(f"{name}-results")
