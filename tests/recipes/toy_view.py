"""A toy view: a word, and a button that opens a new conversation."""

from __future__ import annotations

from tests.recipes.recipe import Edits

FOLDER, VIEW = "program", "toy"
EDITS: Edits = {
    "desktop/features/program/toy.py": '''"""A toy: how many messages there are."""

from __future__ import annotations

from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.chat.model import NewChat
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, text


def draw(state: AppState, ui: Ui) -> list[Action]:
    text(ui, f"{len(state.messages)} messages")
    return [NewChat()] if button(ui, "toy.new", "New") else []
''',
    "desktop/features/registry.py": {
        "import draw as draw_memory_question": (
            "from llm_lite.desktop.features.program.toy import draw as draw_toy\n"
        ),
        'Feature("tree"': (
            '    Feature("toy", views=('
            'View("toy", "Toy", ICON_LOG, "lower right", "conversation", draw_toy, 3),)),\n'
        ),
    },
    "docs/views/toy.md": """# Toy

How many messages there are.

![The log, for want of a picture](../pictures/log.png)
""",
    "docs/see-inside.md": {
        "views/log.md": "| [Toy](views/toy.md) | how many messages there are |\n"
    },
    "tests/desktop/program/test_toy.py": '''"""The toy view."""

from llm_lite.desktop.features.chat.model import NewChat


def test_its_button_opens_a_new_conversation(headless):
    one = headless()
    one.driver.click("tab.toy")
    one.driver.click("toy.new")
    assert one.did(NewChat)
''',
}
