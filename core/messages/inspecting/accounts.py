"""Accounts: an accelerator estimates what a step costs, op by op, without running it, and names the
parameters that this depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from llm_lite.core.messages.kinds import Event, Task


class AccountParameter(Struct, frozen=True):
    """A size or a rate of an accelerator that a person may change in an account."""

    name: str
    label: str  # in English
    unit: str
    value: float
    least: float  # above 0
    most: float
    values: tuple[float, ...] = ()  # the only ones that there are, in order; (): any in between


class OpAccount(Struct, frozen=True):
    """The cost of one op. Of what the host runs, `busy` and `moving` are 0."""

    name: str  # a row of the op table
    label: str  # where in the model: "layers.3.attention.q"
    on: Literal["accelerator", "host"]
    seconds: float
    busy: float = 0.0  # seconds of its multipliers
    moving: float = 0.0  # seconds in which bytes come and go
    moved_bytes: int = 0  # from and to memory
    macs: int = 0  # multiply-adds

    @property
    def waits_for(self) -> Literal["memory", "multipliers", "host"]:
        if self.on == "host":
            return "host"
        return "memory" if self.moving > self.busy else "multipliers"


class StepAccount(Struct, frozen=True):
    """The cost of a step of some tokens behind others; ops run one after the other."""

    accelerator: str
    tokens: int
    depth: int  # positions in the cache before it
    ops: tuple[OpAccount, ...]
    joules: float
    macs_per_second: float  # of all multipliers
    bytes_per_second: float  # that memory gives
    parameters: tuple[AccountParameter, ...] = ()
    assumptions: tuple[str, ...] = ()  # sentences, in English
    # Of labels and assumptions, by the code of a language: {"ko": {"Clock": "..."}}
    translations: Mapping[str, Mapping[str, str]] = {}

    @property
    def seconds(self) -> float:
        return sum(op.seconds for op in self.ops)

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0

    def seconds_on(self, on: str) -> float:
        return sum(op.seconds for op in self.ops if op.on == on)

    @property
    def utilisation(self) -> float:
        """Return the share, 0..1, of the multiply-adds that could be made meanwhile."""
        seconds = self.seconds_on("accelerator")
        macs = sum(op.macs for op in self.ops if op.on == "accelerator")
        return macs / (seconds * self.macs_per_second) if seconds else 0.0

    @property
    def memory_share(self) -> float:
        """Return the share, 0..1, of the bytes that memory could have moved meanwhile."""
        seconds = self.seconds_on("accelerator")
        moved = sum(op.moved_bytes for op in self.ops if op.on == "accelerator")
        return moved / (seconds * self.bytes_per_second) if seconds else 0.0


class AccountStep(Task, frozen=True):
    """Ask for the StepAccount of a step behind what the cache holds."""

    tokens: int
    parameters: tuple[tuple[str, float], ...] = ()  # that differ from the accelerator's own


class StepAccounted(Event, frozen=True):
    account: StepAccount
