"""The tour asks for an answer of a JSON schema, and opens the tree of its choices."""

from __future__ import annotations

from collections.abc import Callable

from llm_lite.core.messages import SamplingOptions
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import NewChat, Send, SetSampling
from llm_lite.desktop.features.tokens.choices import has_choices
from llm_lite.desktop.tour.input_driver import PATIENCE, InputDriver

Picture = Callable[[str], None]
QUESTION = "Describe the sky as JSON."
SCHEMA = """{
  "type": "object",
  "properties": {
    "color": {"enum": ["blue", "grey", "red"]},
    "clouds": {"type": "boolean"},
    "mood": {"enum": ["calm", "bright", "heavy"]}
  },
  "required": ["color", "clouds", "mood"],
  "additionalProperties": false
}"""


def look_at_choices(driver: InputDriver, picture: Picture, name: str) -> None:
    """Show the tree of choices in a new conversation, then restore the settings."""
    before = driver.state.sampling
    driver.program.do(NewChat())
    sampling = SamplingOptions(seed=3, max_new_tokens=60, json_schema=SCHEMA)
    driver.program.do(SetSampling(replace(sampling, temperature=0.7)))
    driver.program.do(Send(QUESTION))
    driver.wait("the answer", lambda s: not s.busy, PATIENCE)
    driver.frames(3)
    if has_choices(driver.state.messages[-1]):
        driver.click("message.1.choices")
        driver.leave()
        picture(name)
        driver.click("tokens.choices.close")
    driver.program.do(SetSampling(before))
    driver.leave()
