"""An engine in a test: what it said, and a hand in what runs its model."""

import threading
import time

from llm_lite.core.engine.engine import Engine
from llm_lite.core.loading import backends
from llm_lite.core.messages import (
    Cancel,
    ChatMessage,
    Ended,
    Generate,
    GenerationFinished,
    LoadModel,
    ModelLoaded,
    Reconfigure,
    SamplingOptions,
    TokenDecoded,
)
from llm_lite.core.records import replace
from tests.children import PATIENCE
from tests.runners import exact

LOADS = LoadModel | Reconfigure
GREEDY = SamplingOptions(temperature=0.0, repetition_penalty=1.0, max_new_tokens=12)
HELLO = (ChatMessage("user", "Hello there"),)


class Client:
    """An engine, all that it ever reported, and the events of that."""

    def __init__(self, device=None):
        self.reports, self.events, self.handles = [], [], []
        self.woken = 0
        self.engine = Engine(device, self._wake)
        self._seen = 0

    def _wake(self):
        self.woken += 1

    def send(self, *commands):
        """Hand commands over, in their order; the handle of the last one."""
        self.handles += [self.engine.submit(command) for command in commands]
        return self.handles[-1]

    def take(self, timeout=0.0):
        """Keep what the engine reports, waiting `timeout` seconds for the first."""
        reports = self.engine.wait(timeout)
        self.reports += reports
        self.events += [report.event for report in reports]

    def result(self, *commands):
        """Hand commands over; the result of the last one. RequestError with its problem."""
        return self.send(*commands).result(PATIENCE)

    def until(self, kind):
        """The next event of a kind; those before it are kept in `events`."""
        return self._next(lambda report: isinstance(report.event, kind), kind.__name__)

    def until_end(self, handle):
        """The end of a command; what came before it is kept in `events`."""

        def is_its_end(report):
            return report.command is handle.command and isinstance(report.event, Ended)

        return self._next(is_its_end, "end of the command")

    def failed_load(self):
        """The end of the next load, or change of the model, that was not carried out."""

        def is_failed_load(report):
            is_end = isinstance(report.event, Ended) and report.event.problem
            return is_end and isinstance(report.command, LOADS)

        return self._next(is_failed_load, "end of a load")

    def failed_loads(self):
        """The ends of all such so far."""
        ends = (r.event for r in self.reports if isinstance(r.command, LOADS))
        return [event for event in ends if isinstance(event, Ended) and event.problem]

    def _next(self, is_wanted, name):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            while self._seen < len(self.reports):
                report = self.reports[self._seen]
                self._seen += 1
                if is_wanted(report):
                    return report.event
            self.take(0.05)
        raise AssertionError(f"no {name} came; there were {self.events}")

    def cancel_loads(self):
        """Cancel the loads and the changes of the model, those of a server's clients too."""
        self.take()
        known = [*(handle.command for handle in self.handles), *(r.command for r in self.reports)]
        for command in {id(one): one for one in known if isinstance(one, LOADS)}.values():
            self.engine.submit(Cancel(command))

    def end_of(self, handle):
        """Why a command that has ended by now could not be carried out, or ""."""
        while not handle.is_over:
            self.take(0.05)
        self.take()
        ends = (r for r in self.reports if r.command is handle.command)
        return next(r.event.problem for r in ends if isinstance(r.event, Ended))

    def load(self, path, options=None):
        self.send(LoadModel(str(path), options or exact()))
        return self.until(ModelLoaded)

    def ask(self, messages=HELLO, sampling=GREEDY, **changes):
        """The last event of an answer and its tokens. RequestError with its problem."""
        handle = self.send(Generate(messages, sampling, **changes))
        last = GenerationFinished | Ended
        is_last = lambda r: r.command is handle.command and isinstance(r.event, last)  # noqa: E731
        self._next(is_last, "end of the answer")
        finished = handle.result(PATIENCE)
        return finished, [event.token for event in self.of(TokenDecoded, handle)]

    def refusal(self, messages=HELLO, sampling=GREEDY, **changes):
        """Why an answer cannot be made."""
        handle = self.send(Generate(messages, sampling, **changes))
        problem = self.end_of(handle)
        assert problem, "it was answered"
        return problem

    def of(self, kind, handle=None):
        """The events of a kind so far; of the command of a handle, where there is one."""
        own = (r for r in self.reports if handle is None or r.command is handle.command)
        return [report.event for report in own if isinstance(report.event, kind)]


class Hook:
    """Stands before every step of executors made for one backend, and before their making."""

    def __init__(self, monkeypatch, backend="numpy"):
        self.steps = []
        self.heard = False  # whether the blocked step was asked to stop
        self.at_step = lambda step, stop: None
        self.at_make = lambda progress: None
        self.at_close = lambda: None
        make = backends.make_executor

        def make_hooked(choice, program, weights, threads, progress):
            if choice.backend != backend:
                return make(choice, program, weights, threads, progress)
            self.at_make(progress)
            inner = replace(choice, backend="numpy")
            return self._hooked(make(inner, program, weights, threads, progress))

        monkeypatch.setattr(backends, "make_executor", make_hooked)

    def _hooked(self, executor):
        run, close = executor.run, executor.close

        def hooked_run(step, should_stop=None):
            self.steps.append(step)
            self.at_step(step, should_stop)
            return run(step, should_stop)

        def hooked_close():
            close()
            self.at_close()

        executor.run, executor.close = hooked_run, hooked_close
        return executor

    def block_step(self, number):
        """An event set when the step of this number is reached, which waits to be stopped."""
        reached = threading.Event()

        def wait(step, should_stop):
            if len(self.steps) == number:
                reached.set()
                deadline = time.monotonic() + PATIENCE
                while not self.heard and time.monotonic() < deadline:
                    self.heard = should_stop()
                    time.sleep(0.001)

        self.at_step, self.heard = wait, False
        return reached

    def block_make(self):
        """An event set when an executor is being made, and one that lets it go on."""
        reached, go_on = threading.Event(), threading.Event()

        def wait(progress):
            reached.set()
            deadline = time.monotonic() + PATIENCE
            while not go_on.is_set() and time.monotonic() < deadline:
                time.sleep(0.001)
                progress(0.5)

        self.at_make = wait
        return reached, go_on
