"""The sampling panel with its groups open, and the choices of an answer that follows a schema."""

from __future__ import annotations

from collections.abc import Callable

from llm_lite.core.messages import SamplingOptions
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import NewChat, Send, SetSampling
from llm_lite.desktop.features.tokens.choices import has_choices
from tools.tour.input_driver import PATIENCE, InputDriver

Picture = Callable[[str], None]
QUESTION = "Describe the sky as JSON."
CHOICES_SCHEMA = """{
  "type": "object",
  "properties": {
    "color": {"enum": ["blue", "grey", "red"]},
    "clouds": {"type": "boolean"},
    "mood": {"enum": ["calm", "bright", "heavy"]}
  },
  "required": ["color", "clouds", "mood"],
  "additionalProperties": false
}"""
GROUPS = ("filters", "penalties", "stop", "form")
SCHEMA = '{\n  "type": "object",\n  "properties": {\n    "color": {"enum": ["blue", "red"]}\n  }\n}'


def look_at_sampling(driver: InputDriver, picture: Picture) -> None:
    """Show the panel with each group open, then restore the settings."""
    before = driver.state.sampling
    driver.click("rail.sampler")
    for group in GROUPS:
        driver.click(f"sampler.{group}")
        driver.frames(2)
        if group == "stop":
            driver.click("sampler.stop_strings")
            driver.type("User:")
        elif group == "form":
            driver.click("sampler.form.schema")
            driver.click("sampler.form.text")
            driver.type(SCHEMA)
        driver.leave()
        picture(f"05-sampler-{group}")
        driver.click(f"sampler.{group}")
    driver.click("presets.more")
    driver.leave()
    picture("05-sampler-presets")
    driver.click("presets.more")
    driver.click("sampler.close")
    driver.program.do(SetSampling(before))
    driver.leave()


def look_at_choices(driver: InputDriver, picture: Picture, name: str) -> None:
    """Show the tree of choices in a new conversation, then restore the settings."""
    before = driver.state.sampling
    driver.program.do(NewChat())
    sampling = SamplingOptions(seed=3, max_new_tokens=60, json_schema=CHOICES_SCHEMA)
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
