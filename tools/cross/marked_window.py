"""The program, telling where its widgets are.

    python -m tools.cross.marked_window MARKS desktop ...

It is `llm-lite` as it is. Whenever they changed, the rectangles of named widgets (pixels of the
window) and what a test wants to know of the state are written into the file MARKS as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from llm_lite.cli import main
from llm_lite.core.records import asdict
from llm_lite.desktop.app import app as desktop_app
from llm_lite.desktop.features.program.state import AppState


def told(state: AppState) -> dict[str, Any]:
    return {
        "model": state.model.name if state.model and not state.load else "",
        "busy": state.busy,
        "draft": state.draft,
        "messages": [
            [message.role, message.text, state.tree.version(at)]
            for at, message in enumerate(state.messages)
        ],
        "reused": state.last_stats.reused_tokens if state.last_stats else 0,
        "open": state.history.open,
        "rows": [[row.id, row.title] for row in state.history.rows],
        "found": [[row.conversation, row.snippet] for row in state.history.found],
        "notices": [notice.text for notice in state.notices],
        "locked": list(state.attention.locked),
        "cached": len(state.owners),
        **told_of_models(state),
    }


def told_of_models(state: AppState) -> dict[str, Any]:
    library = state.library
    return {
        "model_path": state.model.path if state.model and not state.load else "",
        "local": {model.name: {"path": str(model.path)} for model in library.local or ()},
        "found_models": [model.repo for model in library.found or ()],
        "jobs": [asdict(job) for job in library.jobs],
    }


def watch(path: Path) -> None:
    turn, last = desktop_app.App.turn, [""]
    fresh = path.with_suffix(".fresh")

    def watched_turn(app: Any) -> None:
        turn(app)
        ui = app.program.interface.ui
        text = json.dumps({"rects": ui.rects, **told(app.program.state)})
        if text != last[0]:
            last[0] = text
            fresh.write_text(text, "utf-8", errors="backslashreplace")
            fresh.rename(path)

    setattr(desktop_app.App, "turn", watched_turn)  # noqa: B010 - for the type checker


if __name__ == "__main__":
    watch(Path(sys.argv[1]))
    sys.exit(main.main(sys.argv[2:]))
