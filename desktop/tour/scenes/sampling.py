"""The sampling panel with its groups open, one after the other."""

from __future__ import annotations

from collections.abc import Callable

from llm_lite.desktop.features.chat.model import SetSampling
from llm_lite.desktop.tour.input_driver import InputDriver

Picture = Callable[[str], None]
GROUPS = ("filters", "penalties", "stop", "form")
SCHEMA = '{\n  "type": "object",\n  "properties": {\n    "color": {"enum": ["blue", "red"]}\n  }\n}'


def look_at_sampling(driver: InputDriver, picture: Picture) -> None:
    """What is typed is gone afterwards."""
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
