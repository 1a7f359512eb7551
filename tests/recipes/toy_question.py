"""A toy question: which tokens of a sequence stand in it before, and how far back."""

from __future__ import annotations

from tests.recipes.recipe import Copy, Edits, passed

QUESTION = "repeats"
EDITS: Edits = {
    "core/questions/repeats.py": '''"""The distance of each token to the same token before it."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from llm_lite.core.messages import Event, StepRequest
from llm_lite.core.questions.question import Parts, Question
from llm_lite.core.questions.replay import Replay


class ReadRepeats(StepRequest, frozen=True):
    """Ask for RepeatsRead of the tokens from position `first` on."""

    first: Annotated[int, Meta(ge=0, description="Position of the first token.")] = 0


class RepeatsRead(Event, frozen=True, eq=False):
    """The answer to ReadRepeats: how far back the same token stands; 0: nowhere."""

    first: Annotated[int, Meta(description="Position of the first token.")]
    distances: Annotated[NDArray[np.int32], Meta(description="[tokens]")]


def run(request: ReadRepeats, replay: Replay) -> Parts[RepeatsRead]:
    yield from ()
    last: dict[int, int] = {}
    found = []
    for position, token in enumerate(replay.tokens()[: replay.length]):
        found.append(position - last.get(token, position))
        last[token] = position
    return RepeatsRead(request.first, np.array(found[request.first :], np.int32))


REPEATS = Question(
    "repeats", ReadRepeats, RepeatsRead, run, "which of its tokens repeat", ReadRepeats(2)
)
''',
    "core/questions/table.py": {
        "import Question": "from llm_lite.core.questions.repeats import REPEATS\n",
        "    TRACE,": "    REPEATS,\n",
    },
    "tests/core/questions/test_repeats.py": '''"""The toy question."""

from llm_lite.core.questions.repeats import ReadRepeats
from tests.asking import asked
from tests.runners import running


def test_distances(tiny_llama):
    with running(tiny_llama) as runner:
        runner.session.prefill([5, 6, 5, 5, 6])
        assert asked(ReadRepeats(1), runner).distances.tolist() == [0, 2, 1, 3]
''',
}
# Asks by the command line and of the document; and an encoder, which refuses.
_SEEN = """
from llm_lite.server import routes

paths = routes.document(routes.ENDPOINTS, "1")["paths"]
names = [one["name"] for one in paths["/inspect/repeats"]["get"]["parameters"]]
assert {"response", "first", "format"} <= set(names), names
"""


def works(copy: Copy) -> bool:
    """The engine, the server, another llm-lite, Python and the command line answer it."""
    written = copy.python("tools/question_page.py")
    page = (copy.folder / "docs" / "questions.md").read_text("utf-8")
    tests = ("test_repeats.py", "test_every_sequence.py", "test_question_page.py")
    return (
        passed(written)
        and "### repeats" in page
        and passed(copy.python("-c", _SEEN))
        and passed(copy.tests(*(f"tests/core/questions/{one}" for one in tests)))
        and passed(copy.tests("tests/core/engine/test_handles.py", "-k", "every_command"))
        and passed(copy.tests("tests/cli/commands/test_ask.py"))
    )
