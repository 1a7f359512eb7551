"""Files that a person gives the window: by the system's dialog, and by dropping them on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from llm_lite.core.errors import LlmLiteError
from llm_lite.desktop.app.program import Program
from llm_lite.desktop.features.attachments.model import AttachFiles
from llm_lite.desktop.features.file_chooser.host import (
    ATTACHMENTS,
    CONVERSATIONS,
    IMPORT,
    MODEL,
    FileDialog,
    NoDialogError,
    Wish,
    wish_for,
)
from llm_lite.desktop.features.file_chooser.model import ChoosePath
from llm_lite.desktop.features.file_chooser.path_field import give_path
from llm_lite.desktop.features.history.model import ImportConversations
from llm_lite.desktop.features.library.model import ImportLocal
from llm_lite.desktop.features.program.model import OpenModel
from llm_lite.desktop.features.prompts.model import ImportPrompts
from llm_lite.desktop.features.prompts.view import shows_prompts

MODEL_ENDINGS = (".gguf", ".safetensors")


class FileChoice:
    """The file dialog and dropped files. `on_given` is called when a file was given: there is
    something new to draw."""

    def __init__(self, program: Program, on_given: Callable[[], None]) -> None:
        self._program, self._on_given = program, on_given
        self._dialog = FileDialog()

    @property
    def open(self) -> bool:
        """Return True while a dialog is open."""
        return self._dialog.open

    def choose_model(self) -> None:
        self._choose(MODEL)

    def choose_attachments(self) -> None:
        self._choose(ATTACHMENTS)

    def choose_import(self) -> None:
        self._choose(IMPORT)

    def choose_conversations(self) -> None:
        self._choose(CONVERSATIONS)

    def choose_path(self, action: ChoosePath) -> None:
        """Ask for a path that is to stand in a field."""
        try:
            self._dialog.show(None, wish_for(action))
        except NoDialogError:
            self._program.choose_path_here(action)
            self._on_given()

    def poll(self) -> None:
        """Open or attach the files that the dialog returned, if it was answered."""
        try:
            chosen = self._dialog.poll()
        except LlmLiteError as error:
            self._program.warn(str(error))
            return
        if chosen and self._dialog.wish is MODEL:
            self._open(chosen[0])
        elif chosen and self._dialog.wish is IMPORT:
            self._program.do(ImportLocal(str(chosen[0])))
            self._on_given()
        elif chosen and self._dialog.wish is CONVERSATIONS:
            self._program.do(ImportConversations(str(chosen[0])))
            self._on_given()
        elif chosen and self._dialog.wish.purpose in ("path", "folder"):
            wish, ui = self._dialog.wish, self._program.interface.ui
            give_path(ui, wish.target, str(chosen[0]), is_folder=wish.purpose == "folder")
            self._on_given()
        elif chosen:
            self._attach(chosen)

    def drop(self, paths: list[Path]) -> None:
        """Open a dropped model; attach anything else to the draft, or import it into the prompts if
        these are open."""
        if shows_prompts(self._program.interface.ui):
            self._program.do(ImportPrompts(tuple(map(str, paths))))
            return
        models = [path for path in paths if path.suffix.lower() in MODEL_ENDINGS]
        if models:
            self._open(models[0])
        self._attach([path for path in paths if path not in models])

    def close(self) -> None:
        self._dialog.close()

    def _choose(self, wish: Wish) -> None:
        """Open the system's dialog, or the window's own where there is none."""
        recent = self._program.state.recent if wish.purpose in ("model", "import") else ()
        try:
            self._dialog.show(Path(recent[0]).parent if recent else None, wish)
        except NoDialogError:
            self._program.choose_here(wish.purpose)
            self._on_given()

    def _attach(self, paths: Sequence[Path]) -> None:
        if paths:
            self._program.do(AttachFiles(tuple(map(str, paths))))
            self._on_given()

    def _open(self, path: Path) -> None:
        self._program.do(OpenModel(str(path)))
        self._on_given()
