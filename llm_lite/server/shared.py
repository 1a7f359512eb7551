"""`Shared` has what all requests to one server share."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec import Struct, field

from llm_lite.core.errors import RequestError
from llm_lite.core.plain_text import quote
from llm_lite.core.serving.service import Service
from llm_lite.core.turns import Client, Turns, acting_for
from llm_lite.server.active import ActiveRequests
from llm_lite.server.config import ServerConfig
from llm_lite.server.event_bridge import EventBridge
from llm_lite.server.failures import ApiError, no_model

_Job = tuple[Future[Any], Callable[[], Any]]


class _Lane(Struct):
    """A lane has jobs, and at most `most` of them run at once."""

    most: int
    per_client: int
    per_address: int
    turns: Turns[_Job] = field(default_factory=Turns)
    running: int = 0

    def next(self) -> Client | None:
        """Return the client whose turn it is, if a job may begin."""
        return self.turns.next(self._may_begin) if self.running < self.most else None

    def _may_begin(self, client: Client) -> bool:
        turns = self.turns
        return (
            turns.running[client] < self.per_client
            and turns.of_address[client.address] < self.per_address
        )


class TurnPool:
    """At most `per_client` jobs of a client run at once, and not all that may of an address, so
    that the slow ones of one hold up nobody else. Few large jobs run at once, so that they do not
    hold up small ones. `core.turns` says whose turn it is. Any thread may call it."""

    def __init__(self, name: str, threads: int, per_client: int) -> None:
        self._name, self._most = name, threads
        self._changed = threading.Condition()
        large = max(1, threads // 8)
        self._lanes = {
            is_large: _Lane(most, min(per_client, most), max(1, most - max(1, most // 4)))
            for is_large, most in ((True, large), (False, threads))
        }
        self._threads = self._idle = 0
        self._is_closed = False

    def submit(
        self, client: str, work: Callable[[], Result], *, is_large: bool = False
    ) -> Future[Result]:
        """Queue a job; cancelling the result drops work that has not begun."""
        done: Future[Result] = Future()
        known = Client.of(client)

        def acting() -> Result:
            with acting_for(known):
                return work()

        with self._changed:
            if self._is_closed:
                done.cancel()
                return done
            self._lanes[is_large].turns.add(known, (done, acting))
            waiting = sum(len(lane.turns) for lane in self._lanes.values())
            if self._idle < waiting and self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
            self._changed.notify()
        return done

    def close(self) -> None:
        """Drop what waits; what runs ends by itself."""
        with self._changed:
            self._is_closed = True
            for lane in self._lanes.values():
                for done, _ in lane.turns:
                    done.cancel()
                lane.turns.clear()
            self._changed.notify_all()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            lane, client, (done, work) = job
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(work())
                except BaseException as error:  # for the task that waits
                    done.set_exception(error)
            del job, done, work  # their memory is not to wait for the next job
            with self._changed:
                lane.turns.end(client)
                lane.running -= 1
                self._changed.notify()

    def _next(self) -> tuple[_Lane, Client, _Job] | None:
        """Return the next job and its client; wait for one. Returns None in the end."""
        with self._changed:
            self._idle += 1
            while (found := self._whose_turn()) is None and not self._is_closed:
                self._changed.wait()
            self._idle -= 1
            if found is None:
                return None
            lane, client = found
            lane.running += 1
            return lane, client, lane.turns.begin(client)

    def _whose_turn(self) -> tuple[_Lane, Client] | None:
        # Large ones come first where one may begin: so few of them leave threads for the others.
        found = ((lane, lane.next()) for lane in self._lanes.values())
        return next(((lane, client) for lane, client in found if client is not None), None)


MANY_BODIES = "as many bodies come, or are read, as may be: ask again soon"
Result = TypeVar("Result")
ServiceOf = Callable[[], Service | None]
TitleOf = Callable[[], str]
ENDING = "the server ends"
Log = Callable[[str], None]  # for any thread
_MOST_NOTED = 256  # ignored fields that are noted; clients may think of any number
# For what would hold up the loop: templates, tokenizers, grammars, lookups in the cache. Most of it
# waits for processes apart. And for what takes many steps of the engine, so that it holds up none
# of that.
_THREADS, _OF_A_CLIENT = 32, 4
_LONG, _LONG_OF_A_CLIENT = 8, 2


class PassingBody:
    """A body is on its way, which its client may leave half sent, or half read."""

    def __init__(self, address: str, timeout: asyncio.Timeout) -> None:
        self.address, self._timeout = address, timeout
        self.size = 0  # bytes that are held of it
        self.refusal: ApiError | None = None  # why no more of it is waited for

    def drop(self, refusal: ApiError) -> None:
        if self.refusal is None:
            self.refusal = refusal
            self._timeout.reschedule(
                0.0
            )  # long ago: the task that waits in it gets TimeoutError now


class PassingBodies:
    """The loop's thread keeps the bodies on their way here, or from here. Where they are too many,
    or hold too much, one is dropped of the client with the most: none can leave so many that others
    get no place."""

    def __init__(self, most: int, *, oldest_first: bool = False) -> None:
        """Drop the largest of a client's bodies, or with `oldest_first` the one that it has not
        read for longest."""
        self._most, self._oldest_first = most, oldest_first
        self._coming: dict[PassingBody, None] = {}  # in the order in which they came

    def __len__(self) -> int:
        return len(self._coming)

    @contextmanager
    def place(self, body: PassingBody) -> Iterator[None]:
        """Count a body while it comes."""
        self._coming[body] = None
        try:
            self._drop(len(self._coming) - self._most, lambda one: 1)
            yield
        finally:
            self._coming.pop(body, None)

    def make_room(self, size: int) -> None:
        """Make room for so many bytes."""
        self._drop(size, lambda one: one.size)

    def _drop(self, excess: int, share: Callable[[PassingBody], int]) -> None:
        """Drop the largest body, or the oldest of these, of the client with the most, again and
        again."""
        excess -= sum(share(one) for one in self._coming if one.refusal is not None)  # they go
        there = [one for one in self._coming if one.refusal is None]
        while excess > 0 and there:
            shares: Counter[str] = Counter()
            for one in there:
                shares[one.address] += share(one)
            worst = max(
                there,
                key=lambda one: (shares[one.address], 0 if self._oldest_first else share(one)),
            )
            worst.drop(ApiError(429, MANY_BODIES, code="server_busy", retry_after=1, closes=True))
            there.remove(worst)
            excess -= share(worst)


class Shared:
    """`service_of` returns the service of the model that is loaded now, None while none is; then
    `coming` returns the title of the one that is being loaded, "" where there is none. `log`
    gets defects, `note` what else a person may want to know."""

    def __init__(
        self,
        service_of: ServiceOf,
        config: ServerConfig,
        log: Log,
        note: Log = lambda text: None,
        coming: TitleOf = lambda: "",
    ) -> None:
        self.config = config
        self.log, self._note = log, note
        self._noted: set[tuple[str, str]] = set()  # ignored fields, by path
        self.service_of, self.coming = service_of, coming
        self.began = time.time()
        self.counts: Counter[tuple[str, int]] = Counter()  # by path of the table and status
        most = affordable(config.connections)
        requests = min(config.requests, most // 2)
        self.active = ActiveRequests(requests)
        self.bodies = PassingBodies(requests)
        self.sent = PassingBodies(most, oldest_first=True)
        self.body_bytes = 0  # of requests that come, or are read
        self.sent_bytes = 0  # of answers that are being read
        self.unread = 0  # answers that ended because nobody read them
        self.ending: set[Callable[[Exception], None]] = set()  # of answers that run: ends them
        # Of answers that run, by the address and port of the client: lets them write something.
        self.wakers: dict[tuple[str, int], Callable[[], None]] = {}
        self._is_ending = False
        self._pool = TurnPool("server", _THREADS, _OF_A_CLIENT)
        self._long = TurnPool("server, at length", _LONG, _LONG_OF_A_CLIENT)
        self._bridge: EventBridge | None = None

    @property
    def bridge(self) -> EventBridge:
        """Return the bridge to the running loop, on whose thread this is called."""
        if self._bridge is None:
            self._bridge = EventBridge(asyncio.get_running_loop())
        return self._bridge

    def service(self) -> Service:
        """Return the service; raise ApiError while no model is loaded, or none is served."""
        if self._is_ending:
            raise ApiError(503, ENDING, code="server_ends")
        service = self.service_of()
        if service is None:
            raise self._no_model()
        try:
            service.model  # noqa: B018 - it may be going, or coming
        except RequestError as error:
            raise no_model(str(error)) from None
        return service

    def _no_model(self) -> ApiError:
        coming = self.coming()
        if not coming:
            return no_model()
        return no_model(f"the model {quote(coming)} is being loaded: ask again when it is")

    def service_or_none(self) -> Service | None:
        try:
            return self.service()
        except ApiError:
            return None

    def note_ignored(self, path: str, names: Iterable[str]) -> None:
        """Note once of each field that it is ignored. Only the loop's thread calls this."""
        new = [name for name in dict.fromkeys(names) if (path, name) not in self._noted]
        if new and len(self._noted) < _MOST_NOTED:
            self._noted.update((path, name) for name in new)
            self._note(f"{path}: a program sends fields that are ignored: {', '.join(new)}")

    async def in_thread(
        self,
        client: str,
        work: Callable[[], Result],
        *,
        at_length: bool = False,
        is_large: bool = False,
    ) -> Result:
        """Return what `work` returns, which may take longer than a loop can wait: a thread does
        it when it is the client's turn. With `at_length`, many steps of the engine go into it;
        what `is_large` waits for others that are."""
        pool = self._long if at_length else self._pool
        is_large = is_large and not at_length
        return await asyncio.wrap_future(pool.submit(client, work, is_large=is_large))

    def end(self) -> None:
        """End answers that run with a sentence; others do not begin. Any thread may call it."""
        self._is_ending = True
        if self._bridge is not None:
            self._bridge.call(self._end_all)

    def _end_all(self) -> None:
        for end in tuple(self.ending):
            end(ApiError(503, ENDING, code="server_ends"))

    def close(self) -> None:
        self._long.close()
        self._pool.close()


def affordable(connections: int) -> int:
    """Return how many connections may be open: at most half of the files that a process may have
    open."""
    try:
        import resource
    except ImportError:  # a system without such a limit
        return connections
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return connections if files < 0 else max(8, min(connections, files // 2))
