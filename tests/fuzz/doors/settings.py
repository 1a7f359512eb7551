"""settings.json: loaded, put into the window's state, remembered from it, saved and loaded."""

from __future__ import annotations

import json
import random
from functools import cache

from llm_lite.core.records import asdict
from llm_lite.desktop.app import settings
from llm_lite.desktop.features.program.state import AppState
from tests.fuzz.door import Case, Door, Result, problem_of_sentence
from tests.fuzz.mutations import change_json, mutate_bytes, special_file, to_json

_LAYOUT = "[Window][Chat]\nPos=0,0\nSize=640,480\nDockId=0x1\n\n[Docking][Data]\n"


@cache
def written() -> str:
    whole = settings.Settings(layout=_LAYOUT, recent=("/tmp/a.gguf",), unknown={"later": [1]})
    data = asdict(whole)
    return json.dumps({**data.pop("unknown"), **data})


def use(case: Case) -> Result:
    rng, path = case.rng, case.folder / "settings.json"
    path.write_bytes(mutated(rng))
    if rng.random() < 0.02:
        special_file(path, rng)
    found, problems = settings.load(path)
    check(found, problems)
    state = settings.restore(found, AppState())
    again = settings.remember(state, found)
    problem = settings.save(again, path)
    check(again, [problem] if problem else [])
    if not problem and path.is_file():  # into a device it goes, and is not read again
        same, none = settings.load(path)
        assert not none, none
        assert same == again
    numbers = (again.font_size, again.sampling.temperature, again.sampling.top_p, again.looks.high)
    return Result([numbers])


def check(found: settings.Settings, problems: list[str]) -> None:
    for problem in problems:
        assert not (wrong := problem_of_sentence(problem)), f"{wrong}: {problem!r}"
    for text in (found.system_prompt, found.layout, *found.recent):
        assert isinstance(text, str)


def mutated(rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        return mutate_bytes(written().encode(), rng)
    value = json.loads(written())
    for _ in range(rng.choice((1, 1, 2, 5))):
        change_json(value, rng)
    return to_json(value)


DOOR = Door("settings", use)
