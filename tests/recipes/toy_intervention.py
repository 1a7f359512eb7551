"""A toy kind of intervention: values above a limit become the limit."""

from __future__ import annotations

from tests.recipes.recipe import Copy, Edits, passed

KIND = "clip"
EDITS: Edits = {
    "core/messages/interventions.py": {
        "Vector = Annotated": '''

class Clip(Struct, frozen=True, tag_field="kind", tag="clip", forbid_unknown_fields=True):
    """Bound what a site makes."""

    site: Site
    most: Annotated[float, about("The largest value that is left.")]
    unit: Unit = None
    positions: Positions = None


''',
        "| Shift  # adds": "    | Clip  # bounds\n",
    },
    "core/questions/interventions/clip.py": '''"""Clip: values above a limit become the limit."""

from __future__ import annotations

import numpy as np

from llm_lite.core.messages.interventions import Clip
from llm_lite.core.questions.interventions.kind import Kind, Place, SiteValues, check_finite


def _check(change: Clip, place: Place) -> None:
    check_finite(f"{place.at}.most", (change.most,))


def _apply(change: Clip, place: Place, found: SiteValues) -> None:
    rows, columns = found.rows(change.positions), place.slice_of(change.unit)
    found.values[rows, columns] = np.minimum(found.values[rows, columns], change.most)


CLIP = Kind(Clip, _check, _apply)
''',
    "core/questions/interventions/table.py": {
        "import Kind, Place": "from llm_lite.core.questions.interventions.clip import CLIP\n",
        "    REPLACE,": "    CLIP,\n",
    },
    "tests/core/questions/test_clip.py": '''"""The toy kind of intervention."""

from llm_lite.core.messages.interventions import Clip, Interventions
from llm_lite.core.questions.activations import ReadActivations
from tests.asking import asked
from tests.runners import running

SITE = "layers.0.feed_forward.residual"


def test_values_are_bounded(tiny_llama):
    with running(tiny_llama) as runner:
        runner.session.prefill([5, 6, 5, 5, 6])
        plain = asked(ReadActivations((SITE,)), runner).values[SITE]
        most = float(plain.mean())
        clipped = Interventions((Clip(SITE, most, positions=(1, 3)),))
        found = asked(ReadActivations((SITE,), interventions=clipped), runner).values[SITE]
    assert found[[1, 3]].max() <= most + 1e-5 < plain[[0, 2, 4]].max()
    assert abs(found[0] - plain[0]).max() < 1e-4
''',
}
# The document of the server and Python take it, and the window's list and records say it.
_SEEN = """
import json
from llm_lite.api.given import interventions_of
from llm_lite.desktop.features.steer.words import in_words, row_words
from llm_lite.server import routes

document = json.dumps(routes.document(routes.ENDPOINTS, "1"))
assert "The largest value that is left." in document
given = {"kind": "clip", "site": "embedding", "most": 1}
changes = interventions_of(given)
assert changes.changes[0].most == 1
assert row_words(changes.changes[0]) == ("embedding", "clip  \u00b7  1")
assert in_words(changes) == "1 change: clip"
"""
# The command line asks under it, of a model that the tests write.
_ASKED = """
from pathlib import Path
import json, sys, tempfile

from llm_lite.cli.main import main
from tests.make_gguf import write_tiny_llama

with tempfile.TemporaryDirectory() as folder:
    path = write_tiny_llama(Path(folder) / "tiny.gguf", context=64, seed=2)
    changes = {"changes": [{"kind": "clip", "site": "embedding", "most": 0.0}]}
    given = f"interventions={json.dumps(changes)}"
    sys.exit(main(["ask", str(path), "patch", given, "--text", "Hello"]))
"""


def works(copy: Copy) -> bool:
    """The questions, the server, Python, the command line and the window take it."""
    return (
        passed(copy.python("-c", _SEEN))
        and passed(copy.python("-c", _ASKED))
        and passed(copy.tests("tests/core/questions/test_clip.py"))
    )
