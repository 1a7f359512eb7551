"""The record of how an answer was made: the model's file, and all that another answer like it would
need."""

from __future__ import annotations

from msgspec import Struct, field

from llm_lite.core.messages.interventions import NO_CHANGES, Interventions
from llm_lite.core.messages.models import ExecutorInfo, ModelInfo
from llm_lite.core.messages.sampling_options import SamplingOptions
from llm_lite.core.records import replace


class ModelIdentity(Struct, frozen=True):
    """The file of the model that answered. 0 and "" stand for what is not known."""

    name: str = ""
    path: str = ""
    bytes: int = 0
    modified: float = 0.0  # when the file was written last
    fingerprint: str = ""  # a hash, as `core.kv_cache.on_disk.Identity.model`


class WeightSwitch(Struct, frozen=True):
    """A change of how the model computes in the middle of an answer."""

    token: int  # of the answer: the first one that was computed so
    mode: str = ""  # of the weights
    activations: str = ""
    backend: str = ""


class InterventionSwitch(Struct, frozen=True):
    """Other interventions in the middle of an answer."""

    token: int  # of the answer: the first one that was computed under them
    interventions: Interventions = NO_CHANGES


class AnswerRun(Struct, frozen=True):
    """The settings and speeds of an answer; 0 and "" stand for what is not known.

    For a tool's message it records what answered: the function is the model's name, its server the
    device, and `backend` says how ("server", "hand", "refused", "failed").
    """

    model: ModelIdentity = field(default_factory=ModelIdentity)
    mode: str = ""  # of the weights
    activations: str = ""
    keys: str = ""  # of the cache
    values: str = ""
    backend: str = ""
    device: str = ""
    threads: int = 0
    sampling: SamplingOptions | None = None  # its seed included
    thinking: bool = True  # what the template's switch was set to
    tools: str = ""  # how its text marks calls (`core.tools.calls`); "": no functions were offered
    switches: tuple[WeightSwitch, ...] = ()  # since it began, as told above
    interventions: Interventions = NO_CHANGES
    intervention_switches: tuple[InterventionSwitch, ...] = ()

    @classmethod
    def by(
        cls,
        model: ModelInfo | None,
        executor: ExecutorInfo | None,
        thinking: bool = True,
        interventions: Interventions = NO_CHANGES,
    ) -> AnswerRun | None:
        """Return the record of an answer that is made now."""
        if model is None or executor is None:
            return None
        if executor.backend == "remote":  # how it computes is not known
            return cls(
                ModelIdentity(model.name, model.path, model.file_bytes),
                backend="remote",
                device=executor.device,
                thinking=thinking,
                interventions=interventions,
            )
        return cls(
            ModelIdentity(model.name, model.path, model.file_bytes),
            executor.mode,
            executor.activations,
            executor.keys,
            executor.values,
            executor.backend,
            executor.device,
            executor.threads,
            thinking=thinking,
            interventions=interventions,
        )

    def switched(self, executor: ExecutorInfo, token: int) -> AnswerRun:
        """Return the record of an answer whose tokens from `token` on an executor computes."""
        now = (executor.mode, executor.activations, executor.backend)
        before = tuple(switch for switch in self.switches if switch.token < token)
        last = before[-1] if before else self
        same = now == (last.mode, last.activations, last.backend)
        return replace(self, switches=before if same else (*before, WeightSwitch(token, *now)))

    def intervened(self, interventions: Interventions, token: int) -> AnswerRun:
        """Return the record of an answer whose tokens from `token` on have these interventions."""
        before = tuple(one for one in self.intervention_switches if one.token < token)
        same = interventions == (before[-1] if before else self).interventions
        now = before if same else (*before, InterventionSwitch(token, interventions))
        return replace(self, intervention_switches=now)

    def is_like(self, other: AnswerRun | None) -> bool:
        """Return True if the other would compute the same, under the same
        interventions."""
        if other is None or (self.model.name, self.model.path) != (
            other.model.name,
            other.model.path,
        ):
            return False
        return (self.mode, self.activations) == (other.mode, other.activations)
