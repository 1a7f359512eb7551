"""`Replay` is what a question sees of a sequence: its tokens, what the executor keeps of them, and
how a part of it runs again without being stored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeGuard

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.exec.executor import Executor
from llm_lite.core.files.mapping import MappedFiles
from llm_lite.core.finite import Values
from llm_lite.core.inspect.attention import AttendedSequence
from llm_lite.core.kv_cache.states import State
from llm_lite.core.loading.model_file import LoadedModel
from llm_lite.core.messages import FollowToken, ReadAttentionRows, TokenTrace
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.plan.cache_layers import CacheLayer
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.questions.attention_reader import AttentionRowsReader
from llm_lite.core.questions.encoded_text import EncodedText

F32 = NDArray[np.float32]
PART = 32  # tokens that run at once: few, as a message waits for them, and enough for products


class OtherText(Struct, frozen=True):
    """Another text of the same model: the tokens that an encoder has read, and those that a decoder
    has; `replay` where what was computed of them is still there."""

    encoded: tuple[int, ...] | None = None
    decoded: tuple[int, ...] | None = None
    replay: Replay | None = None


class Inspected(Protocol):
    """The part of `Replay` that an encoder's text has, too."""

    @property
    def encoded(self) -> EncodedText | None:
        """Return the text that an encoder has read: this, or the source of an encoder-decoder."""
        ...

    @property
    def decodes(self) -> bool:
        """Return whether it is a `Replay`: tokens that a decoder has read."""
        ...

    @property
    def model(self) -> LoadedModel: ...

    @property
    def is_shared(self) -> bool:
        """Return whether the executor is others', too: what one question may take is limited."""
        ...

    @property
    def length(self) -> int:
        """Return how many tokens there are."""
        ...

    @property
    def layers(self) -> tuple[AttentionLayer, ...]:
        """Return what the model's layers attend with, those with a recurrent state among them."""
        ...

    def check(self) -> None:
        """Raise RequestError once the tokens are others than at the beginning."""
        ...

    def checked(self, values: Values, what: str) -> Values:
        """Return the values. NotFiniteError that names the model where one is NaN or infinite."""
        ...

    def token_text(self, token: int) -> str:
        """Return the text of one token by itself."""
        ...

    def response(self, name: str) -> AbstractContextManager[OtherText]:
        """Return another response of a server, which is looked after inside. RequestError where
        there are none, GoneError where it is no longer there."""
        ...

    def attended(self, layers: Collection[int], rows: range | None = None) -> AttendedSequence:
        """Return queries, at `rows` or all positions, and keys of layers, to be read until the next
        part of a question; a server's are copies, for any thread."""
        ...

    def rows_reader(self, request: ReadAttentionRows) -> AttentionRowsReader:
        """Return what reads these attention rows until the next part of a question, for any thread
        where they are a server's. RequestError for layers that are not there."""
        ...

    def trace(self, request: FollowToken) -> TokenTrace:
        """Return all numbers of a token, with texts. RequestError for a position, layer or head
        that is not there, NotFiniteError where a number is none."""
        ...


class Replay(Inspected, Protocol):
    """The tokens of a sequence that an executor holds: of the chat, of a response of the server, or
    of a text in Python. It belongs to the executor's thread, between two steps.

    What runs again leaves no trace: keys, values, queries and recurrent states stay as they are.
    """

    @property
    def executor(self) -> Executor: ...

    @property
    def files(self) -> MappedFiles: ...

    @property
    def weights(self) -> Mapping[str, TensorData]:
        """Return the executor's weights by name."""
        ...

    @property
    def version(self) -> int:
        """Return a number that grows whenever the tokens or the interventions change."""
        ...

    @property
    def epoch(self) -> int:
        """Return a number that grows when equal tokens may have other values than before."""
        ...

    @property
    def rows(self) -> range:
        """Return the positions whose queries, and choices of experts, are kept."""
        ...

    @property
    def no_rows(self) -> str:
        """Return a sentence on why `rows` is empty."""
        ...

    def tokens(self) -> tuple[int, ...]: ...

    def reusable_prefix_length(self) -> int:
        """Return the number of leading positions whose values equal a fresh computation with the
        weights and interventions in force."""
        ...

    def oldest(self, layer: CacheLayer) -> int:
        """Return the first position whose keys and values a layer's cache still has."""
        ...

    def kept(self, tensor: Tensor, positions: range) -> F32:
        """Return what a state tensor keeps of positions, float32 [positions, columns]."""
        ...

    def nearest(self, length: int, end: int) -> tuple[int, State | None]:
        """Return the most of the first `length` tokens behind which a step could begin, and a copy
        of the recurrent state there; None for the beginning, and for models without states.
        RequestError where too many tokens would run from there to `end`."""
        ...

    def run(
        self,
        start: int,
        end: int,
        state: State | None,
        run: Callable[[Step], None],
        tokens: Sequence[int] | None = None,
        *,
        plain: bool = False,
    ) -> State:
        """Call `run` with the step over tokens start..end-1, which goes on from `state`, under the
        interventions in force, or `plain`, without any; return the state that it leaves.
        RequestError once the tokens are others. `tokens`: others than the sequence's, from position
        0 on; within `scratch`."""
        ...

    def scratch(self, start: int, end: int) -> AbstractContextManager[None]:
        """Let steps inside store rows of positions start..end-1; afterwards all is as it was.
        RequestError where the cache lacks what a token at `start` sees, or has no room for the
        rows."""
        ...

    def places(self, tensor: Tensor, positions: range) -> list[tuple[int, int]]:
        """Return the runs (row, count) of a state tensor in which positions lie, in their order."""
        ...


def decodes(replay: Inspected) -> TypeGuard[Replay]:
    """Return whether a sequence has tokens that a decoder has read."""
    return replay.decodes
