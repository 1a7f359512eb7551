"""Fields of other servers that change an answer, and that this one does not have.

They are refused rather than ignored, unless they say what is done here anyway.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from llm_lite.server.tables.kinds import FieldProblem, Schema
from llm_lite.server.tables.records import Field

NOT_HERE = "is not supported by this server"


class Only(Struct, frozen=True):
    """A JSON value that changes nothing; null is one in any case."""

    value: Any

    @property
    def words(self) -> str:
        return "null"

    def fits(self, value: Any) -> bool:
        if isinstance(value, bool) or isinstance(self.value, bool):
            return value is self.value
        return bool(value == self.value)

    def read(self, value: Any, at: str) -> Any:
        if not self.fits(value):
            raise FieldProblem(at, f"{NOT_HERE}: leave it out")
        return value

    def schema(self) -> Schema:
        return {"const": self.value}


def without(value: Any, *names: str) -> tuple[Field, ...]:
    """Fields of which only `value`, or null, may be said."""
    return tuple(Field(name, Only(value), "Not supported here.") for name in names)


# By vLLM's and llama.cpp's names: what an answer is held to, and where it ends.
OF_ALL = (
    *without({}, "guided_json", "structured_outputs"),
    *without("", "guided_regex", "guided_grammar"),
    *without([], "guided_choice", "stop_token_ids", "bad_words", "allowed_token_ids", "lora"),
    *without([], "grammar_triggers"),
    *without(False, "grammar_lazy", "ignore_eos", "use_beam_search"),
    *without(0, "min_tokens"),
)
# By OpenAI's names, older and newer: functions, a voice, a search.
OF_CHAT = (
    *without([], "functions"),
    *without("none", "function_call"),
    *without({}, "audio", "web_search_options"),
)
