"""The tour's way through weight modes: a switch in the middle of an answer, what modes cost and
lose, and two of them on one prompt."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from imgui_bundle import imgui

from llm_lite.core.assets import ASSETS
from llm_lite.core.files.writing import write_file
from llm_lite.core.messages import EngineOptions, Mode
from llm_lite.desktop.actions.chatting import NewChat, Send, SetSampling, StopAnswer
from llm_lite.desktop.actions.program import DismissNotice, SetOptions
from llm_lite.desktop.actions.quantizing import SetQuantization, ShowRuns
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.tour.input_driver import InputDriver, InputDriverError

LIMIT = 900.0  # seconds
SAMPLE = ASSETS / "sample.txt"
BYTES, SLOW_BYTES = 5000, 2400  # of text for the report: two chunks, one on a slow device
SLOW = 20.0  # tokens per second
TOKENS, ANSWER = 96, 1000  # of a run, of the answer that is switched at most
RUNS: tuple[Mode, Mode] = ("fp32", "int4")
QUESTION = "Write a long story about a lighthouse keeper and the sea."
PROMPT = "Write the beginning of a story about a lighthouse."


def look_at_modes(robot: InputDriver, picture: Callable[[str], None]) -> None:
    """The panel's pages, then the runs, in the middle of the way and at their end."""
    robot.click("tab.quantization")
    _switch(robot, picture)
    robot.click("quantization.measure")
    robot.wait("the speed of the modes", _no_work, LIMIT)
    _point(robot, "quantization.mode.int4")
    picture("06-modes-measured")
    _report(robot, picture)
    robot.click("quantization.page.tensors")
    robot.click("tensors.run")
    robot.wait("the tensors", _no_work, LIMIT)
    robot.leave()
    picture("06-modes-tensors")
    robot.click("quantization.page.modes")
    compare(robot, picture)


def _switch(robot: InputDriver, picture: Callable[[str], None]) -> None:
    """To int8 while an answer is written, and back after it."""
    options, sampling = robot.state.options, robot.state.sampling
    robot.program.do(NewChat())
    for notice in robot.state.notices:
        robot.program.do(DismissNotice(notice.id))
    robot.program.do(SetSampling(replace(sampling, max_new_tokens=ANSWER)))
    robot.program.do(Send(QUESTION))
    robot.wait("its beginning", _has_said(8), LIMIT)
    robot.click("quantization.mode.int8")
    robot.leave()
    picture("06-modes-switching")
    robot.wait("int8 in the middle of the answer", _in_mode("int8"), LIMIT)
    said = len(robot.state.messages[-1].tokens)
    robot.wait("some tokens more", _has_said(said + 12), LIMIT)
    picture("06-modes-switched")
    robot.program.do(StopAnswer())
    robot.wait("its end", lambda s: not s.busy, LIMIT)
    robot.program.do(SetSampling(sampling))
    robot.program.do(SetOptions(options))
    robot.wait("the mode from before", lambda s: s.load is None, LIMIT)


def _report(robot: InputDriver, picture: Callable[[str], None]) -> None:
    """Two modes against fp32 on the beginning of the sample."""
    robot.click("quantization.page.report")
    stats = robot.state.last_stats
    slow = stats is not None and stats.prefill_tok_s < SLOW
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.txt"
        write_file(path, SAMPLE.read_bytes()[: SLOW_BYTES if slow else BYTES])
        tested: tuple[Mode, ...] = ("int4",) if slow else ("int8", "int4")
        for mode in tested:
            _choose(robot, tested=mode, reference="fp32", path=str(path))
            robot.click("report.run")
            robot.wait("the report", _no_work, LIMIT)
        _choose(robot, path="")
    robot.leave()
    picture("06-modes-report")
    _point(robot, "report.table")
    robot.wheel(-30.0)
    robot.leave()
    picture("06-modes-report-plots")
    _point(robot, "view.quantization")
    robot.wheel(60.0)


def compare(robot: InputDriver, picture: Callable[[str], None]) -> None:
    """fp32 and int4 on one prompt."""
    robot.click("quantization.compare")
    robot.leave()
    picture("06-runs-empty")
    runs = _runs(robot.state.options)
    _choose(robot, runs=runs, prompt=PROMPT, greedy=True, length=TOKENS)
    robot.click("runs.start")
    robot.leave()
    robot.wait("both runs", _run_tokens(TOKENS // 3), LIMIT)
    picture("06-runs-writing")
    robot.wait("the comparison", _no_work, LIMIT)
    robot.leave()
    picture("06-runs")
    point_at_parting(robot)
    picture("06-runs-token")
    robot.leave()


def leave(robot: InputDriver) -> None:
    robot.program.do(ShowRuns(False))
    robot.frames(2)


def point_at_parting(robot: InputDriver) -> None:
    """The bar of the strip where the runs part, or the last one."""
    held = robot.state.quantization.comparison
    if held is None or not held.forced:
        raise InputDriverError("the comparison has no tokens to point at")
    at = held.parting if held.parting is not None else len(held.forced) - 1
    robot.point(f"runs.bar.{min(at, len(held.forced) - 1)}")
    robot.frames(3)


def _runs(options: EngineOptions) -> tuple[EngineOptions, EngineOptions]:
    a, b = RUNS
    return replace(options, mode=a), replace(options, mode=b)


def _choose(robot: InputDriver, **changes: object) -> None:
    choices = replace(robot.state.quantization.choices, **changes)  # type: ignore[arg-type]
    robot.program.do(SetQuantization(choices))
    robot.frames(2)


def _point(robot: InputDriver, name: str) -> None:
    x0, y0, x1, y1 = robot.rect(name)
    imgui.get_io().add_mouse_pos_event((x0 + x1) / 2, (y0 + y1) / 2)
    robot.frames(3)


def _no_work(state: AppState) -> bool:
    return state.quantization.work is None


def _in_mode(mode: Mode) -> Callable[[AppState], bool]:
    return lambda s: s.load is None and s.executor is not None and s.executor.mode == mode


def _has_said(count: int) -> Callable[[AppState], bool]:
    return lambda s: not s.busy or len(s.messages[-1].tokens) >= count


def _run_tokens(count: int) -> Callable[[AppState], bool]:
    def holds(state: AppState) -> bool:
        held = state.quantization.comparison
        said = held is not None and max(len(answer.tokens) for answer in held.answers) >= count
        return said or state.quantization.work is None

    return holds
