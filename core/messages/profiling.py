"""Where the time of a step goes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProfileStep:
    """Ask for a StepProfile of the loaded model, behind what the cache holds. Stop ends it."""

    request: int
    tokens: int  # of the step: 1 is a decoded token; fewer where the plans or the context end


@dataclass(frozen=True, slots=True)
class OpTime:
    name: str  # a row of the op table
    label: str  # where in the model: "layers.3.attention.q"
    seconds: float
    read_bytes: int  # of weights and cache


@dataclass(frozen=True, slots=True)
class StepProfile:
    """`ops` in the order of the plan. What they do not add up to is waiting."""

    tokens: int
    depth: int  # positions in the cache before it
    seconds: float
    ops: tuple[OpTime, ...]
    memory_gb_s: float  # a plain read on the same device
    device: str

    @property
    def read_bytes(self) -> int:
        return sum(op.read_bytes for op in self.ops)

    @property
    def memory_share(self) -> float:
        """0..1, of what a plain read of memory reaches; 0 where that is not known."""
        if not self.memory_gb_s or not self.seconds:
            return 0.0
        return self.read_bytes / self.seconds / 1e9 / self.memory_gb_s


@dataclass(frozen=True, slots=True)
class StepProfiled:
    request: int
    profile: StepProfile
