"""What an answer's buttons and links lead to outside the window: a file, a page in the browser."""

from __future__ import annotations

import threading
from pathlib import Path

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.files.writing import make_folder, write_file
from llm_lite.desktop.app.figure_export import Outcome
from llm_lite.desktop.language.translate import tr


def save_text(path: str, text: str) -> Outcome:
    """Write a file where none is; what is said about it."""
    place = Path(path)
    try:
        make_folder(place.parent)
        write_file(place, text.encode("utf-8", "replace"), new=True)
    except LlmLiteError as error:
        return Outcome(str(error), failed=True)
    return Outcome(tr("Saved {path}").format(path=place))


def open_link(address: str) -> Outcome | None:
    """Ask the system's browser; it may take its time, and no frame waits for it. What is said
    where there is none."""
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return Outcome(
            tr("No browser was found to open {address}").format(address=address), failed=True
        )
    work = threading.Thread(target=browser.open, args=(address,), name="browser", daemon=True)
    work.start()
    return None
