"""A toy sampler option: tokens with a smaller id than it are never chosen."""

from __future__ import annotations

from tests.recipes.recipe import Copy, Edits, passed

OPTION = "lowest_token"
EDITS: Edits = {
    "core/messages/sampling_options.py": {
        'same=("llama-server", "llama-cpp-python"),': """    )
    lowest_token: int = option(
        0,
        "Tokens with a smaller id are never chosen. 0 is off.",
        (0, 1 << 30),
        off=0,
        title="Lowest token",
        group="filters",
        slider=(0, 100),
""",
    },
    "core/generation/sampling.py": {
        "greedy = options.temperature == 0.0": """        if options.lowest_token:
            ids = np.arange(32 * -(-len(logits) // 32))
            bits = np.packbits(ids >= options.lowest_token, bitorder="little").view(np.uint32)
            mask = bits if mask is None else _fitted(mask, len(logits)) & bits
""",
    },
    "tests/core/generation/test_lowest_token.py": '''"""The lowest token that may be chosen."""

import numpy as np
import pytest

from llm_lite.core.generation.sampling import Sampler
from llm_lite.core.messages import SamplingOptions

LOGITS = np.array([3.0, 2.0, 1.0, 0.0], np.float32)


@pytest.mark.parametrize(("lowest", "chosen"), [(0, 0), (1, 1), (3, 3)])
def test_smaller_ids_are_never_chosen(lowest, chosen):
    options = SamplingOptions(temperature=0.0, lowest_token=lowest)
    assert Sampler(options).choose(LOGITS, ()).token == chosen
''',
}
# Prints each place where a person meets the option.
_SEEN = """
import json, tempfile
from pathlib import Path

from llm_lite.cli.conversation.commands import COMMANDS
from llm_lite.core.messages import SamplingOptions
from llm_lite.desktop.features.presets import host as files
from llm_lite.desktop.app.settings import load, save
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.commands.settings import SETTINGS
from llm_lite.desktop.features.presets.model import Preset
from llm_lite.server import routes
from tests.desktop.headless import Headless

NAME, HELP = "lowest_token", "Tokens with a smaller id are never chosen"
chosen = SamplingOptions(lowest_token=7)
if HELP[1:] + "; 0: off" in COMMANDS["lowest-token"].help:
    print("/commands")
schemas = routes.document(routes.ENDPOINTS, "1")["components"]["schemas"]
if any(HELP in str(one.get("properties", {}).get(NAME)) for one in schemas.values()):
    print("document")
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "a.json"
    save(Settings(sampling=chosen), path)
    if load(path) == (Settings(sampling=chosen, system_prompt=load(path)[0].system_prompt), []):
        print("settings")
    files.write(path, Preset("a", sampling=chosen))
    if json.loads(path.read_text())["sampling"][NAME] == 7 and files.read(path).sampling == chosen:
        print("preset")
one = Headless(size=(1280, 1500))
one.driver.click("rail.sampler")
one.driver.click("sampler.filters")
one.driver.click("sampler.lowest_token")
if one.state.sampling.lowest_token > 0:
    print("panel")
if any(setting.title == "Lowest token" for setting in SETTINGS):
    print("palette")
"""
PLACES = ["/commands", "document", "settings", "preset", "panel", "palette"]


def works(copy: Copy) -> bool:
    """The option chooses, and is seen wherever options are."""
    helped = copy.python("-m", "llm_lite", "chat", "--help")
    seen = copy.python("-c", _SEEN)
    written = copy.python("tools/option_table.py")
    page = (copy.folder / "docs" / "sampling.md").read_text("utf-8")
    tests = ("tests/core/generation/test_lowest_token.py", "tests/desktop/chat/test_sampler.py")
    return (
        passed(helped)
        and "--lowest-token N" in helped.stdout
        and passed(seen)
        and seen.stdout.split() == PLACES
        and passed(written)
        and "| `lowest_token` | Tokens with a smaller id are never chosen | 0 |" in page
        and passed(copy.tests(*tests, "tests/core/generation/test_sampling_options.py"))
        and passed(copy.tests("tests/core/generation/test_sampling.py"))
    )
