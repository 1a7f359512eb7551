"""A toy feature: it counts the lines of a file, on a thread, and a panel shows how many."""

from __future__ import annotations

from tests.recipes.recipe import Copy, Edits, passed

FEATURE = "toy_lines"
_FOLDER = f"desktop/features/{FEATURE}"
EDITS: Edits = {
    f"{_FOLDER}/__init__.py": '"""The lines of a file, counted while the window goes on."""\n',
    f"{_FOLDER}/state.py": '''"""What is known of the lines of a file."""

from __future__ import annotations

from msgspec import Struct


class LinesState(Struct, frozen=True):
    path: str = ""
    lines: int | None = None  # None: not counted yet
''',
    f"{_FOLDER}/model.py": '''"""What changes the count of a file's lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.toy_lines.state import LinesState


class CountLines(Action, frozen=True):
    """Count the lines of the file `path`; the host does it."""

    path: str


class LinesCounted(Action, frozen=True):
    path: str
    lines: int


def _count(action: CountLines, state: AppState, now: float) -> Result:
    return replace(state, toy_lines=LinesState(action.path)), ()


def _counted(action: LinesCounted, state: AppState, now: float) -> Result:
    if state.toy_lines.path != action.path:  # another file is wanted by now
        return state, ()
    return replace(state, toy_lines=LinesState(action.path, action.lines)), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    CountLines: _count,
    LinesCounted: _counted,
}
''',
    f"{_FOLDER}/view.py": '''"""A toy: the number of lines of a file."""

from __future__ import annotations

from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import text


def draw(state: AppState, ui: Ui) -> list[Action]:
    text(ui, f"{state.toy_lines.lines} lines")
    ui.mark(f"toy_lines.{state.toy_lines.lines}")
    return []
''',
    f"{_FOLDER}/host.py": '''"""Counts lines on a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from llm_lite.desktop.features.host import Host
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.host_worker import Worker
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.toy_lines.model import CountLines, LinesCounted


class LinesHost(Host):
    actions = (CountLines,)

    def __init__(self, wake: Callable[[], None]) -> None:
        self._worker = Worker("lines", wake)

    def do(self, action: CountLines, state: AppState) -> Sequence[Action]:
        def job() -> Iterable[Action]:
            text = Path(action.path).read_text("utf-8", "replace")
            yield LinesCounted(action.path, len(text.splitlines()))

        self._worker.put(job, lambda problem: ())
        return ()

    def poll(self, state: AppState) -> Sequence[Action]:
        return self._worker.poll()
''',
    "desktop/features/program/state.py": {
        "from llm_lite.desktop.features.tools.state": (
            "from llm_lite.desktop.features.toy_lines.state import LinesState\n"
        ),
        "    tools: ToolsState": '    toy_lines: LinesState = made("program", LinesState)\n',
    },
    "desktop/features/registry.py": {
        "from llm_lite.desktop.features.tools import model as tools": (
            "from llm_lite.desktop.features.toy_lines import model as toy_lines\n"
            "from llm_lite.desktop.features.toy_lines.view import draw as draw_toy_lines\n"
        ),
        'Feature("tree"': (
            '    Feature("toy_lines", toy_lines.HANDLERS, views=('
            'View("toy_lines", "Lines", ICON_LOG, "lower right", "program", draw_toy_lines),)),\n'
        ),
    },
    "desktop/app/app.py": {
        "    def _begin_remote(self)": (
            "        from llm_lite.desktop.features.toy_lines.host import LinesHost\n\n"
            '        self.program.use("toy_lines", LinesHost(self.window.wake))\n'
        ),
    },
    "tests/desktop/test_toy_lines.py": '''"""The toy feature, from its action to its panel."""

from llm_lite.desktop.features.toy_lines.host import LinesHost
from llm_lite.desktop.features.toy_lines.model import CountLines, LinesCounted


def test_lines_of_a_file_are_shown(headless, tmp_path):
    (tmp_path / "three").write_text("a\\nb\\nc\\n")
    one = headless()
    one.program.use("toy_lines", LinesHost(lambda: None))
    one.program.do(CountLines(str(tmp_path / "three")))
    one.driver.wait("the count", lambda s: s.toy_lines.lines == 3)
    one.driver.click("tab.toy_lines")
    assert one.driver.shows("toy_lines.3")


def test_a_count_of_another_file_is_not_shown(headless):
    one = headless()
    one.program.do(CountLines("second"))
    one.program.do(LinesCounted("first", 9))
    assert one.state.toy_lines.lines is None
''',
}


def works(copy: Copy) -> bool:
    """Its action reaches the host, what that finds the panel; the application begins the host."""
    tests = ["tests/desktop/test_toy_lines.py", "tests/desktop/test_features.py"]
    tests += ["tests/desktop/program/test_handlers.py", "tests/test_reach.py"]
    return passed(copy.tests(*tests))
