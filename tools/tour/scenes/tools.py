"""A model that calls functions, for the tour: answers are written here, as the tour's own model may
know none, and the server is only in the state, not run."""

from __future__ import annotations

from collections.abc import Callable

from imgui_bundle import imgui

from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import (
    ChatMessage,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    ServerSpec,
    Thinking,
    TokenDecoded,
    ToolSpec,
)
from llm_lite.core.records import replace
from llm_lite.core.tools.calls import read_calls
from llm_lite.desktop.features.chat.model import UnfoldThought
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.state import AppState, Message, Running
from llm_lite.desktop.features.tools.model import (
    CallAnswered,
    RestoreTools,
    RunCall,
    SetServer,
    SetServerStatus,
    UnfoldResult,
)
from llm_lite.desktop.features.tools.state import ToolReply
from tools.tour.input_driver import InputDriver

THOUGHT_QUESTION = (
    "A bat and a ball cost 1.10 together, and the bat costs 1 more than the ball. What does the "
    "ball cost?"
)
THOUGHT = (
    "The first number that comes to mind is 0.10. But then the bat would cost 1.10, and both "
    "together 1.20. So that is not right.\n\nLet the ball cost x. The bat costs x + 1, so 2x + 1 = "
    "1.10, and x = 0.05.\n\nCheck: 0.05 + 1.05 = 1.10. Yes. The difference is 1.05 - 0.05 = 1. "
    "Both hold, so I can answer."
)
THOUGHT_ANSWER = (
    "The ball costs **0.05**, and the bat 1.05.\n\nIt is tempting to say 0.10, but then the bat "
    "would cost 1.10 and both together 1.20."
)
PIECE = 4  # characters of a token
SECONDS = 0.04  # a token
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
    """Show answers with thoughts and with calls of tools."""
    look_at_thoughts(driver, picture, f"{name}-thoughts{after}")
    kept = driver.state
    _look_at_tools(driver, picture, f"{name}-tools{after}")
    driver.program.state = kept
    driver.frames(2)


def _look_at_tools(driver: InputDriver, picture: Picture, name: str) -> None:
    """Show the panel, a call that waits for permission, one that runs, and an unfolded result."""
    program = driver.program
    model = driver.state.model
    assert model is not None
    program.do(RestoreTools("", (SPEC,)))
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
    program.do(SetServerStatus(SPEC.name, "on", TOOLS))
    driver.frames(2)
    driver.click("tools.tab.offer")
    driver.leave()
    picture(f"{name}-offered")
    driver.click("tools.close")
    split = read_calls("tags", CALLS)
    stats = GenerationStats(310, 0, 74, 400.0, 25.0, 120.0, 384)
    asks = Message("assistant", split.visible_text, stop_reason="end", stats=stats, calls=split)
    messages = (Message("user", QUESTION), asks)
    program.state = replace(driver.state, tree=ConversationTree(messages))
    driver.leave()
    picture(f"{name}-asks")
    program.do(RunCall(0))
    driver.frames(2)
    picture(f"{name}-runs")
    program.do(CallAnswered(asks.id, 0, RESULT, 0.31, False))
    driver.frames(2)
    driver.click("call.1.1.hand")
    driver.click("call.1.1.text")
    driver.type('{"degrees": -2}')
    driver.leave()
    picture(f"{name}-hand")
    replies = (
        Message("tool", RESULT, reply=ToolReply("forecast", "server", SPEC.name, 0.31)),
        Message("tool", '{"degrees": -2}', reply=ToolReply("get_weather", "hand")),
        Message("assistant", SAID, stop_reason="end", stats=stats),
    )
    program.state = replace(driver.state, tree=ConversationTree((*messages, *replies)))
    program.do(UnfoldResult(2, True))
    driver.leave()
    picture(f"{name}-results")


def look_at_thoughts(driver: InputDriver, picture: Callable[[str], None], name: str) -> None:
    """Show thoughts as they come, folded above the answer, unfolded and selected."""
    kept, asked = driver.state, Generate((ChatMessage("user", THOUGHT_QUESTION),))
    text = f"{THOUGHT}\n</think>\n\n{THOUGHT_ANSWER}"
    pieces = [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
    begun = replace(
        kept,
        tree=ConversationTree((Message("user", THOUGHT_QUESTION), Message("assistant", ""))),
        running=Running(asked, 0.0),
    )
    started = GenerationStarted(40, 0, (), Thinking("think", inside=True))
    begun = apply(started, begun, 0.1, asked)
    driver.program.state = _with_tokens(begun, pieces[: len(THOUGHT) * 2 // 3 // PIECE])
    driver.leave()
    picture(f"{name}-coming")
    count = len(pieces)
    ended = _with_tokens(begun, pieces)
    stats = GenerationStats(40, 0, count, 400.0, 1 / SECONDS, 120.0, 40 + count)
    ended = apply(GenerationFinished("end", stats), ended, count * SECONDS, asked)
    driver.program.state = ended
    driver.leave()
    picture(f"{name}-folded")
    driver.program.do(UnfoldThought(1, True))
    driver.leave()
    picture(f"{name}-unfolded")
    _select_all(driver)
    picture(f"{name}-selected")
    driver.press(imgui.Key.escape)
    driver.program.state = kept
    driver.frames(2)


def _select_all(driver: InputDriver) -> None:
    """Select both messages by keyboard, after a click on a text."""
    driver.click("message.1.thoughts")
    driver.point("message.1.thoughts")
    for _ in range(2):
        driver.press(imgui.Key.mod_ctrl, imgui.Key.a)
    driver.leave()


def _with_tokens(state: AppState, pieces: list[str]) -> AppState:
    assert state.running is not None
    asked = state.running.asked
    for number, piece in enumerate(pieces):
        step = 1e3 * SECONDS
        event = TokenDecoded(number, piece, 0.5, 40 + number, (), step)
        state = apply(event, state, 0.1 + number * SECONDS, asked)
    return state
