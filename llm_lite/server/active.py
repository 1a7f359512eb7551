"""`ActiveRequests` counts the requests that are worked on, of all clients and of each address."""

from __future__ import annotations

from collections import Counter

from llm_lite.server.failures import ApiError

BUSY = "as many requests are worked on as may be: ask again soon"
_TIMES_FREE = 3


class ActiveRequests:
    """Requests whose body is still coming do not count. At most `most` are worked on at once, and
    of one address no more than three times as many as places are left: it has three quarters of
    them alone, the next one three quarters of the rest, and a few never have all. Only the loop's
    thread counts."""

    def __init__(self, most: int) -> None:
        self._most, self.count = most, 0
        self._of_address: Counter[str] = Counter()

    def check(self, address: str, *, counted: bool = False) -> None:
        """Raise ApiError where no more may begin; `counted`: the request is among those that are
        counted."""
        there, of_address = self.count - counted, self._of_address[address] - counted
        if there >= self._most:
            raise ApiError(429, BUSY, code="server_busy", retry_after=1)
        if of_address >= _TIMES_FREE * (self._most - there):
            problem = (
                f"{of_address} requests of {address} are worked on, as many as one address may "
                "have beside others: ask again soon"
            )
            raise ApiError(429, problem, code="server_busy", retry_after=1)

    def begin(self, address: str) -> None:
        self.count += 1
        self._of_address[address] += 1

    def end(self, address: str) -> None:
        self.count -= 1
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]
