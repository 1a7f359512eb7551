"""The interface of a session to inspection; `generation.session.Session` has it all."""

from __future__ import annotations

from typing import Protocol

from llm_lite.core.exec.executor import Executor
from llm_lite.core.files.mapping import MappedFiles
from llm_lite.core.finite import Values
from llm_lite.core.inspect.committed import Committed
from llm_lite.core.kv_cache.contents import KvCache
from llm_lite.core.messages import Gains


class CommittedSession(Protocol):
    """The part of the interface for maps, from any thread."""

    @property
    def committed(self) -> Committed: ...

    def tokens(self) -> tuple[int, ...]: ...

    @property
    def source_tokens(self) -> tuple[int, ...]:
        """Return the tokens that cross-attention sees, whose keys the caches hold."""
        ...

    def checked(self, values: Values, what: str) -> Values:
        """Return the values. NotFiniteError that names the model where one is NaN or infinite."""
        ...


class InspectedSession(CommittedSession, Protocol):
    """The part of the interface that runs ops again or reads the cache, between two steps."""

    executor: Executor
    files: MappedFiles
    cache: KvCache

    @property
    def context_used(self) -> int: ...

    @property
    def source(self) -> int:
        """Return how many positions an encoder's keys and values have; 0: none."""
        ...

    @property
    def gains(self) -> Gains: ...

    def write_gains(self, gains: Gains) -> None:
        """Write the gains that the next step uses; `gains` stays what is in force."""
        ...
