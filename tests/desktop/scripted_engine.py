"""An engine that says what a test has written, of a model that knows functions."""

from __future__ import annotations

from llm_lite.core.records import replace
from tests.desktop.fake_answers import pieces_of
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.fake_model import MODEL

WEATHER = """[{"name": "weather", "description": "The weather in a city.", "parameters":
{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]"""


def call(name, arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


class ScriptedEngine(FakeEngine):
    """Answers with `said`, one after the other; the last again and again."""

    def __init__(self, *said, delay=0.0, style="tags"):
        self.said = list(said)
        super().__init__(delay)
        self.model = replace(MODEL, tool_style=style)

    def _decode(self, command, prompt):
        said = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        pieces = pieces_of(said)
        for number, piece in enumerate(pieces):
            if self._stop.is_set():
                return number, "stopped"
            self.cached.append(hash((3, piece)))
            self._say(self._token(command, number, piece, len(self.cached)))
            self._rest(self._stop)
        return len(pieces), "end"
