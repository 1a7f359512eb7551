"""How far a job of the queue of models is, in one line."""

from __future__ import annotations

import sys
import time

from llm_lite.cli.terminal.output import overwrite, say
from llm_lite.core.messages.library import JobStage, ModelJob

_OFTEN, _SELDOM = 0.2, 10.0  # seconds between two lines on a terminal, in a file
_DOING = {
    "download": "downloading",
    "slice": "slicing",
    "quantize": "quantizing",
    "delete source": "deleting the source",
    "delete": "deleting",
}


class JobLine:
    """Written over on standard error; in a file, a line now and then and one a stage."""

    def __init__(self) -> None:
        self._shown, self._stage = 0.0, ""
        self._terminal = sys.stderr.isatty()
        self._begun = False

    def show(self, job: ModelJob, *, waits: bool = False) -> None:
        """waits: another program works, and has not begun with this job."""
        now = time.monotonic()
        stage = job.current
        if stage is None:
            return
        words = "waits for another llm-lite" if waits else stage_line(stage)
        fresh = words if waits else stage.stage
        interval = _OFTEN if self._terminal else _SELDOM
        if fresh == self._stage and now - self._shown < interval:
            return
        self._stage, self._shown, self._begun = fresh, now, True
        overwrite(words)

    def end(self) -> None:
        if self._begun and self._terminal:
            overwrite("", last=True)
        self._begun = False

    def say(self, sentence: str) -> None:
        self.end()
        say(sentence)


def stage_line(stage: JobStage) -> str:
    words = [_DOING[stage.stage]]
    if stage.total:
        words[0] += f" {min(100, 100 * stage.done // stage.total)} %"
    if stage.stage == "download" and stage.total:
        words.append(f"{stage.done / 1e6:,.1f} of {stage.total / 1e6:,.1f} MB")
        if stage.rate:
            words.append(f"{stage.rate / 1e6:,.1f} MB/s")
    if stage.left is not None:
        words.append(f"{duration(stage.left)} left")
    line = ", ".join(words)
    return f"{line}  {stage.detail}" if stage.detail else line


def duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    if whole < 6000:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
