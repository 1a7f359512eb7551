"""Values of a chat template's variables in a request: how much a model thinks, and others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Struct

from llm_lite.core.checked import CheckError
from llm_lite.core.messages import ModelInfo
from llm_lite.core.messages.answers import EFFORT
from llm_lite.core.text.chat_template import unread
from llm_lite.core.tools.json_values import kind_of
from llm_lite.server.schema import about

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
AskedEffort = Annotated[
    Effort | None,
    about("How much a model thinks whose template takes it; none: it is not to think."),
]
AskedValues = Annotated[
    dict[str, Any] | None,
    about("Values of variables of the chat template; enable_thinking: whether the model thinks."),
]
_SWITCH = "enable_thinking"
_SILENT = ("none", "minimal")  # efforts at which a model with a switch does not think


class TemplateValues(Struct, frozen=True):
    thinks: bool  # what the template's switch for thoughts is set to
    values: Mapping[str, Any]  # of other variables
    is_switched: bool = False  # by the name of the switch

    @classmethod
    def of(cls, effort: Effort | None, given: Mapping[str, Any] | None) -> TemplateValues:
        """Return what these fields ask for; CheckError."""
        values = {name: value for name, value in (given or {}).items() if value is not None}
        is_switched = _SWITCH in values
        thinks = values.pop(_SWITCH, effort not in _SILENT)
        if not isinstance(thinks, bool):
            found = f"expected true or false, found {kind_of(thinks)}"
            raise CheckError(f"chat_template_kwargs.{_SWITCH}", found)
        if effort is not None:
            values.setdefault(EFFORT, effort)
        return cls(thinks, values, is_switched)

    def unread(self, model: ModelInfo, effort: str, lead: str) -> list[str]:
        """Return the fields without effect on prompts of the model: `effort` is the name of that
        for effort, and `lead` stands before the names of variables."""
        names = unread(model.template_variables, self.values)
        if model.switches_thinking:  # an effort sets the switch
            return [lead + name for name in names if name != EFFORT]
        switch = [lead + _SWITCH] if self.is_switched else []
        return [effort if name == EFFORT else lead + name for name in names] + switch
