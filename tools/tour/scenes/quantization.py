"""The tour's way through weight modes: a switch in the middle of an answer, what modes cost and
lose, and two of them on one prompt."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from imgui_bundle import imgui

from llm_lite.core.assets import ASSETS
from llm_lite.core.files.writing import write_file
from llm_lite.core.messages import EngineOptions, Mode
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import NewChat, Send, SetSampling, StopAnswer
from llm_lite.desktop.features.program.model import DismissNotice, SetOptions
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization.model import SetQuantization, ShowRuns
from tools.tour.input_driver import InputDriver, InputDriverError

_TABS = 32  # pixels at the top of a panel
LIMIT = 900.0  # seconds
PLACES = (("vulkan", 2), ("cpu", 3))  # the kernels, and the form whose lines are in the picture
SAMPLE = ASSETS / "sample.txt"
BYTES, SLOW_BYTES = 5000, 2400  # of text for the report: two chunks, one on a slow device
SLOW = 20.0  # tokens per second
TOKENS, ANSWER = 96, 1000  # of a run, of the answer that is switched at most
RUNS: tuple[Mode, Mode] = ("fp32", "int4")
QUESTION = "Write a long story about a lighthouse keeper and the sea."
PROMPT = "Write the beginning of a story about a lighthouse."


def look_at_modes(driver: InputDriver, picture: Callable[[str], None]) -> None:
    """Show the panel's pages, then the two runs while they are written and at their end."""
    driver.click("tab.quantization")
    _switch(driver, picture)
    driver.click("quantization.measure")
    driver.wait("the speed of the modes", _no_work, LIMIT)
    _point(driver, "quantization.mode.int4")
    picture("06-modes-measured")
    _report(driver, picture)
    driver.click("quantization.page.tensors")
    driver.click("tensors.run")
    driver.wait("the tensors", _no_work, LIMIT)
    driver.leave()
    picture("06-modes-tensors")
    driver.click("quantization.page.modes")
    compare(driver, picture)


def _switch(driver: InputDriver, picture: Callable[[str], None]) -> None:
    """Switch to int8 while an answer is written, and back after it."""
    options, sampling = driver.state.options, driver.state.sampling
    driver.program.do(NewChat())
    for notice in driver.state.notices:
        driver.program.do(DismissNotice(notice.id))
    driver.program.do(SetSampling(replace(sampling, max_new_tokens=ANSWER)))
    driver.program.do(Send(QUESTION))
    driver.wait("its beginning", _has_written(8), LIMIT)
    driver.click("quantization.mode.int8")
    driver.leave()
    picture("06-modes-switching")
    driver.wait("int8 in the middle of the answer", _in_mode("int8"), LIMIT)
    written = len(driver.state.messages[-1].tokens)
    driver.wait("some tokens more", _has_written(written + 12), LIMIT)
    picture("06-modes-switched")
    driver.program.do(StopAnswer())
    driver.wait("its end", lambda s: not s.busy, LIMIT)
    driver.program.do(SetSampling(sampling))
    driver.program.do(SetOptions(options))
    driver.wait("the mode from before", lambda s: s.load is None, LIMIT)


def _report(driver: InputDriver, picture: Callable[[str], None]) -> None:
    """Compare modes with fp32 on the beginning of the sample: two, or one on a slow device."""
    driver.click("quantization.page.report")
    stats = driver.state.last_stats
    slow = stats is not None and stats.prefill_tok_s < SLOW
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.txt"
        write_file(path, SAMPLE.read_bytes()[: SLOW_BYTES if slow else BYTES])
        tested: tuple[Mode, ...] = ("int4",) if slow else ("int8", "int4")
        for mode in tested:
            _choose(driver, tested=mode, reference="fp32", path=str(path))
            driver.click("report.run")
            driver.wait("the report", _no_work, LIMIT)
        _choose(driver, path="")
    driver.leave()
    picture("06-modes-report")
    _point(driver, "report.table")
    driver.wheel(-30.0)
    driver.leave()
    picture("06-modes-report-plots")
    _point(driver, "view.quantization")
    driver.wheel(60.0)


def compare(driver: InputDriver, picture: Callable[[str], None]) -> None:
    """Run fp32 and int4 on one prompt."""
    driver.click("quantization.compare")
    driver.frames(4)
    driver.leave()
    picture("06-runs-empty")
    runs = _runs(driver.state.options)
    _choose(driver, runs=runs, prompt=PROMPT, greedy=True, length=TOKENS)
    driver.click("runs.start")
    driver.leave()
    driver.wait("both runs", _run_tokens(TOKENS // 3), LIMIT)
    picture("06-runs-writing")
    driver.wait("the comparison", _no_work, LIMIT)
    driver.leave()
    picture("06-runs")
    point_at_parting(driver)
    picture("06-runs-token")
    driver.leave()


def leave(driver: InputDriver) -> None:
    driver.program.do(ShowRuns(False))
    driver.frames(6)


def point_at_parting(driver: InputDriver) -> None:
    """Point at the strip's bar where the runs part, or at the last one."""
    held = driver.state.quantization.comparison
    if held is None or not held.forced:
        raise InputDriverError("the comparison has no tokens to point at")
    at = held.parting if held.parting is not None else len(held.forced) - 1
    driver.point(f"runs.bar.{min(at, len(held.forced) - 1)}")
    driver.frames(3)


def _runs(options: EngineOptions) -> tuple[EngineOptions, EngineOptions]:
    a, b = RUNS
    return replace(options, mode=a), replace(options, mode=b)


def _choose(driver: InputDriver, **changes: object) -> None:
    choices = replace(driver.state.quantization.choices, **changes)  # type: ignore[arg-type]
    driver.program.do(SetQuantization(choices))
    driver.frames(2)


def _point(driver: InputDriver, name: str) -> None:
    x0, y0, x1, y1 = driver.rect(name)
    imgui.get_io().add_mouse_pos_event((x0 + x1) / 2, (y0 + y1) / 2)
    driver.frames(3)


def _no_work(state: AppState) -> bool:
    return state.quantization.work is None


def _in_mode(mode: Mode) -> Callable[[AppState], bool]:
    return lambda s: s.load is None and s.executor is not None and s.executor.mode == mode


def _has_written(count: int) -> Callable[[AppState], bool]:
    return lambda s: not s.busy or len(s.messages[-1].tokens) >= count


def _run_tokens(count: int) -> Callable[[AppState], bool]:
    def holds(state: AppState) -> bool:
        held = state.quantization.comparison
        written = held is not None and max(len(answer.tokens) for answer in held.answers) >= count
        return written or state.quantization.work is None

    return holds


def look_at_step(driver: InputDriver, picture: Callable[[str], None]) -> None:
    """Show the profile of a token's step, with the pointer on the vocabulary's products, an
    accelerator's account of it, and the kernels."""
    driver.click("tab.performance")
    scroll_to(driver, "step.measure")
    driver.click("step.measure")
    driver.wait("a profile", lambda s: s.quantization.profile is not None, 120)
    driver.wait("rest", lambda s: s.quantization.work is None, 120)
    driver.frames(3)
    driver.point("step.logits")
    picture("04-step")
    if driver.state.executor is not None and driver.state.executor.accounts:
        look_at_account(driver, picture)
    look_at_kernels(driver, picture, "04-kernels")
    driver.wheel(200)  # back to the rates, which now know what memory allows
    driver.leave()
    driver.frames(3)
    picture("04-performance-limit")


def look_at_account(driver: InputDriver, picture: Callable[[str], None]) -> None:
    """Show what a token's step would cost on an accelerator, and what another size or rate would
    be worth, layer by layer."""
    scroll_to(driver, "account.ask")
    driver.click("account.ask")
    driver.wait("an account", lambda s: s.quantization.accounted is not None, 120)
    driver.wait("rest", lambda s: s.quantization.work is None, 120)
    scroll_to(driver, "account.ask")
    driver.leave()
    picture("04-account")
    account = driver.state.quantization.account(driver.state.executor)
    if account is not None and account.parameters:
        name = f"account.{account.parameters[-1].name}"
        scroll_to(driver, name)
        driver.click(name)
        driver.wait("rest", lambda s: s.quantization.work is None, 120)
        scroll_to(driver, "account.layers")
        driver.leave()
        picture("04-account-what-if")


def look_at_kernels(driver: InputDriver, picture: Callable[[str], None], name: str) -> None:
    """Show the kernel study; the panel `performance` must be shown, at its top."""
    for backend, form in PLACES:
        scroll_to(driver, f"kernels.{backend}")
        driver.click(f"kernels.{backend}")
        driver.click("kernels.measure")
        driver.wait("the kernels", lambda s: s.quantization.work is None, LIMIT)
        scroll_to(driver, f"kernels.form.{form}")
        driver.click(f"kernels.form.{form}")
        scroll_to(driver, f"kernels.{backend}")
        driver.leave()
        picture(f"{name}-{backend}")
        scroll_to(driver, "kernels.code")
        driver.leave()
        picture(f"{name}-{backend}-code")
    driver.point("view.performance")


def scroll_to(driver: InputDriver, name: str, panel: str = "performance") -> None:
    """Turn the wheel in a panel until a part's top is just below its tabs, which cover it else."""
    x0, y0, x1, _ = driver.rect(f"view.{panel}")
    for _ in range(40):
        driver.point_at((x0 + x1) / 2, y0 + 40)
        below = driver.rect(name)[1] - y0 if driver.shows(name) else 1000.0
        if _TABS <= below < _TABS + 120:
            return
        driver.wheel(-1.0 if below > _TABS else 1.0)
