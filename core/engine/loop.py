"""The one loop: a step of an answer, then all waiting requests, and again until the answer ends.

Between two steps requests are served, another executor takes over, or the answer stops; each is a
branch below. Only a device that fails is an exception: the C++ executor goes on in its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from llm_lite.core.engine.hosting.model_host import NO_MODEL, ModelHost
from llm_lite.core.engine.hosting.switching import Switching
from llm_lite.core.engine.step_requests import StepRequestServer
from llm_lite.core.errors import DeviceError, RequestError
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages.interventions import Interventions


class SteppedWork(Protocol):
    """The interface of an answer, or of a conversation that is read, to the loop."""

    @property
    def interventions(self) -> Interventions | None:
        """Return the work's own interventions; None for those that are set."""
        ...

    def begin(self, runner: Runner) -> None:
        """Prepare on this runner. Called again after a change of executor: progress is kept."""
        ...

    def step(self) -> bool:
        """Run at most one step and emit its events; False after the last one."""
        ...

    def interrupted(self, seconds: float) -> None:
        """Record that requests of inspecting panels took `seconds` between two steps."""
        ...

    def finish(self) -> None:
        """Emit how it ended."""
        ...

    def abandon(self) -> None:
        """Emit what was held back: the work cannot go on."""
        ...


def run_steps(
    work: SteppedWork,
    host: ModelHost,
    requests: StepRequestServer,
    switching: Switching,
    is_stopped: Callable[[], bool],
    serve_clients: Callable[[], object],
) -> None:
    """Run the work step by step. LlmLiteError where it cannot go on; what it did until then was
    emitted. `serve_clients` runs a step for others, and leaves another runner in the host where its
    device failed."""
    runner: Runner | None = None
    is_going = True
    try:
        while is_going:
            try:
                serve_clients()
                if runner is None or runner is not host.runner:
                    runner = _runner(host)
                    requests.begin_answer(runner, work.interventions)
                    work.begin(runner)
                before = time.perf_counter()
                requests.serve(runner, lambda: True)
                work.interrupted(time.perf_counter() - before)
                ready = switching.ready()
                if ready is not None:
                    host.switch(ready)
                else:
                    is_going = not is_stopped() and work.step()
            except DeviceError as error:
                host.fall_back(error)
    finally:
        requests.end_answer()
    work.finish()


def _runner(host: ModelHost) -> Runner:
    if host.runner is None:
        raise RequestError(NO_MODEL)
    return host.runner
