"""A preset's file: read, used in the window's state, written and read again."""

from __future__ import annotations

import json
import random
from functools import cache

from llm_lite.core.generation.sampling import check
from llm_lite.core.messages import Interventions, SamplingOptions
from llm_lite.core.messages.interventions import Scale, Shift
from llm_lite.core.records import asdict, replace
from llm_lite.desktop.features.presets import host as files
from llm_lite.desktop.features.presets.model import Preset, UsePreset
from llm_lite.desktop.features.program.act import act
from llm_lite.desktop.features.program.state import AppState
from tests.fuzz.door import Case, Door, Result
from tests.fuzz.mutations import change_json, mutate_bytes, special_file, to_json


@cache
def written() -> str:
    sampling = SamplingOptions(stop=("\n\n",), logit_bias=((5, -1.0),), json_schema="{}", seed=1)
    changes = Interventions(
        (
            Scale("blocks.0.attn.hook_z", unit=1, factor=0.5),
            Shift("blocks.1.hook_resid_post", (0.5, 1.0)),
        )
    )
    preset = Preset("mine", "Be brief.", sampling, "int8", changes)
    return json.dumps(asdict(preset))


def use(case: Case) -> Result:
    rng, path = case.rng, case.folder / "preset.json"
    path.write_bytes(mutated(rng))
    if rng.random() < 0.02:
        special_file(path, rng)
    preset = files.read(path)
    check(replace(preset.sampling, json_schema="", grammar=""))
    act(UsePreset(preset), AppState(), 0.0)
    again = case.folder / "again.json"
    files.write(again, preset)
    assert files.read(again) == preset
    return Result([[preset.sampling.temperature, preset.sampling.dry_base]])


def mutated(rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        return mutate_bytes(written().encode(), rng)
    value = json.loads(written())
    for _ in range(rng.choice((1, 1, 2))):
        change_json(value, rng)
    return to_json(value)


DOOR = Door("preset", use)
