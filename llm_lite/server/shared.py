"""What all requests to one server share."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from llm_lite.core.errors import RequestError
from llm_lite.core.plain_text import quote
from llm_lite.core.serving.service import Service
from llm_lite.server.config import ServerConfig
from llm_lite.server.failures import ApiError, no_model
from llm_lite.server.inbox import Mailroom

Result = TypeVar("Result")
ServiceOf = Callable[[], Service | None]
TitleOf = Callable[[], str]
ENDING = "the server ends"
Log = Callable[[str], None]  # for any thread
_MOST_NOTED = 256  # ignored fields that are told of; clients may think of any number
_THREADS = 4  # for what would hold up the loop: templates, tokenizers, lookups in the cache
_LONG = 2  # for what takes many steps of the engine, so that it holds up none of the above


class Shared:
    """`service_of` gives the service of the model that is loaded now, None while none is; `coming`
    then the title of the one that is being loaded, "" where there is none. `log` is told of
    defects, `note` of what else a person may want to know."""

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
        self.active = 0  # requests
        self.counts: Counter[tuple[str, int]] = Counter()  # by path of the table and status
        self.body_bytes = 0  # of requests that come, or are read
        self.unread = 0  # answers that ended because nobody read them
        self.ending: set[Callable[[Exception], None]] = set()  # of answers that run: ends them
        self._is_ending = False
        self._pool = ThreadPoolExecutor(_THREADS, "server")
        self._long = ThreadPoolExecutor(_LONG, "server, at length")
        self._mailroom: Mailroom | None = None

    @property
    def mailroom(self) -> Mailroom:
        """Of the loop that runs; asked for on its thread."""
        if self._mailroom is None:
            self._mailroom = Mailroom(asyncio.get_running_loop())
        return self._mailroom

    def service(self) -> Service:
        """ApiError while no model is loaded, or none is served."""
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
        """Say once of each field that it is not looked at; of the loop's thread."""
        new = [name for name in dict.fromkeys(names) if (path, name) not in self._noted]
        if new and len(self._noted) < _MOST_NOTED:
            self._noted.update((path, name) for name in new)
            self._note(f"{path}: a program sends fields that are ignored: {', '.join(new)}")

    async def apart(self, work: Callable[[], Result]) -> Result:
        """What may take longer than a loop can wait, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def at_length(self, work: Callable[[], Result]) -> Result:
        """As `apart`, for what many steps of the engine go into."""
        return await asyncio.get_running_loop().run_in_executor(self._long, work)

    def end(self) -> None:
        """From any thread: answers that run end with a sentence, others do not begin."""
        self._is_ending = True
        if self._mailroom is not None:
            self._mailroom.call(self._end_all)

    def _end_all(self) -> None:
        for end in tuple(self.ending):
            end(ApiError(503, ENDING, code="server_ends"))

    def close(self) -> None:
        self._long.shutdown(wait=False, cancel_futures=True)
        self._pool.shutdown(wait=False, cancel_futures=True)
