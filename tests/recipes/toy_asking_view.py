"""A toy view that asks: the likeliest token behind the first one."""

from __future__ import annotations

from tests.recipes.recipe import Copy, Edits, passed

FOLDER, VIEW = "tokens", "toy_next"
EDITS: Edits = {
    "desktop/features/tokens/toy_next.py": '''"""A toy: the likeliest token behind the first one."""

from __future__ import annotations

from llm_lite.core.messages import Inspect, LensResult
from llm_lite.desktop.features.cache.unread import draw_unread
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.asking import Slot
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import text

NEXT: Slot[LensResult] = Slot("toy-next", Inspect, LensResult, lambda asked: asked.position + 1)


def draw(state: AppState, ui: Ui) -> list[Action]:
    actions, found = draw_unread(state, ui, "toy_next"), NEXT.answer(state)
    if found is not None:
        text(ui, found.rows[-1].tokens[0].text)
        ui.mark("toy_next.token")
    return [*actions, *(NEXT.wanted(state, Inspect(0)) if state.context_used else ())]
''',
    "desktop/features/registry.py": {
        "tokens.lens import draw as draw_lens": (
            "from llm_lite.desktop.features.tokens.toy_next import NEXT\n"
            "from llm_lite.desktop.features.tokens.toy_next import draw as draw_toy_next\n"
        ),
        'Feature("tree"': (
            '    Feature("toy_next", asks=(NEXT,), views=('
            'View("toy_next", "Toy", ICON_LOG, "lower right", "conversation", '
            "draw_toy_next, 3),)),\n"
        ),
    },
    "docs/views/toy_next.md": """# Toy

The likeliest token behind the first one.

![The log, for want of a picture](../pictures/log.png)
""",
    "docs/see-inside.md": {
        "views/log.md": "| [Toy](views/toy_next.md) | the likeliest token behind the first one |\n"
    },
    "tests/desktop/tokens/test_toy_next.py": '''"""The toy view that asks."""

from llm_lite.core.messages import Inspect
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.asking import Ask
from llm_lite.desktop.features.tokens.toy_next import NEXT
from tests.desktop.cached import with_answer, with_cached
from tests.desktop.engine.questions import lens
from tests.desktop.headless import READY
from llm_lite.core.messages import LensResult


def test_it_asks_and_shows_what_is_of_the_text_in_front(headless):
    one = headless(with_cached(READY, ("a", "b")))
    one.driver.click("tab.toy_next")
    assert [ask.question for ask in one.did(Ask) if ask.slot is NEXT][0] == Inspect(0)
    one.program.state = with_answer(one.state, NEXT, Inspect(0), LensResult(0, lens()))
    one.driver.frames(2)
    assert one.driver.shows("toy_next.token")
    one.program.state = replace(one.state, executor=replace(one.state.executor, mode="int4"))
    one.driver.frames(2)
    assert not one.driver.shows("toy_next.token")
''',
}


def works(copy: Copy) -> bool:
    """It is never stale: a person who does everything else finds it true of what is in front."""
    tests = ["tests/desktop/app/test_interface.py::test_every_view_and_popover_is_shown"]
    tests += ["tests/test_documents.py::test_each_view_has_a_page_with_pictures"]
    tests += ["tests/test_rooms.py", "tests/desktop/tokens/test_toy_next.py"]
    return passed(copy.tests(*tests)) and passed(
        copy.tests("tests/desktop/person/test_person.py", "-k", "screen_is_true or answers_stay")
    )
