"""A profile of a step, by op; and one matrix product in several forms, each with its time."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from llm_lite.core.messages.kinds import Event, Task

StudyBackend = Literal["vulkan", "cpu"]
# From naive to tiled, in the study of these steps on a GPU that this one repeats.
REFERENCE_SPEEDUP = 13.6
SOFTWARE_DRIVER = (
    "This driver is software: the processor stands in for a GPU. An invocation is an element of a "
    "vector, shared memory is ordinary memory, and a barrier cuts every loop. Steps that help a "
    "GPU can cost time here."
)


class ProfileStep(Task, frozen=True):
    """Ask for a StepProfile of the loaded model, behind what the cache holds."""

    tokens: int  # of the step: 1 is a decoded token; fewer where the plans or the context end


class OpTime(Struct, frozen=True):
    name: str  # a row of the op table
    label: str  # where in the model: "layers.3.attention.q"
    seconds: float
    read_bytes: int  # of weights and cache


class StepProfile(Struct, frozen=True):
    """The profile of a step: `ops` in the order of the plan; the rest of the time is waiting."""

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
        """Return the share, 0..1, of the speed of a plain read of memory; 0 if not known."""
        if not self.memory_gb_s or not self.seconds:
            return 0.0
        return self.read_bytes / self.seconds / 1e9 / self.memory_gb_s


class StepProfiled(Event, frozen=True):
    profile: StepProfile


class StudyKernels(Task, frozen=True):
    """Ask for a KernelStudy of the device that draws, or of this processor."""

    backend: StudyBackend


class KernelForm(Struct, frozen=True):
    """A form of the product: its source, how it differs from the form before, and its time."""

    name: str
    why: str  # it is faster than the form before, in English
    language: Literal["glsl", "cpp"]
    path: str  # of its source in the repository
    code: str  # the lines that differ from the form before; of the first, its function
    seconds: float  # for the whole product, the median of several runs
    fastest: float
    slowest: float


class KernelStudy(Struct, frozen=True):
    """The study of C[M,N] = A[M,K] . B[N,K]^T in float32; `forms` in the order of the study, those
    measured so far. Rates count a multiply-add as two operations."""

    backend: StudyBackend
    device: str
    software: bool  # a Vulkan driver that computes on the processor
    m: int
    n: int
    k: int
    arithmetic_gflop_s: float  # measured: multiply-adds that need no memory
    memory_gb_s: float  # measured: a plain read
    forms: tuple[KernelForm, ...] = ()

    @property
    def operations(self) -> int:
        return 2 * self.m * self.n * self.k

    @property
    def tiled_speedup(self) -> float:
        """Return how much faster the tiled form, the third, is than the naive one; 0 if that is not
        measured yet."""
        return self.forms[0].seconds / self.forms[2].seconds if len(self.forms) > 2 else 0.0

    @property
    def least_bytes(self) -> int:
        """Return the bytes if each value of A and B is read once, each of C written once."""
        return 4 * (self.m * self.k + self.n * self.k + self.m * self.n)

    @property
    def memory_roof_gflop_s(self) -> float:
        """Return the GFLOP/s that memory allows a form which reads every value once."""
        return self.memory_gb_s * self.operations / self.least_bytes

    @property
    def without_reuse_gflop_s(self) -> float:
        """Return the GFLOP/s that memory allows if two values are read for each multiply-add."""
        return self.memory_gb_s * 2 / 8

    @property
    def roof_gflop_s(self) -> float:
        """Return the lower of arithmetic and memory, as in the roofline model: Williams, Waterman
        and Patterson, Communications of the ACM 52(4), 2009."""
        return min(self.arithmetic_gflop_s, self.memory_roof_gflop_s)

    def gflop_s(self, form: KernelForm) -> float:
        return self.operations / form.seconds / 1e9

    def share(self, form: KernelForm) -> float:
        """Return the share, 0..1, of the roof."""
        return self.gflop_s(form) / self.roof_gflop_s

    def times_naive(self, form: KernelForm) -> float:
        """Return how much faster the form is than the first one."""
        return self.forms[0].seconds / form.seconds


class KernelsStudied(Event, frozen=True):
    """Sent after each form that was measured."""

    study: KernelStudy
