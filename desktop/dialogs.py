"""The system's file dialog, asked without holding up the frames."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from core.errors import DeviceError, RequestError

# A directory of Hugging Face opens by its config.json, a variant by its variant.json.
FILTERS = ["Models", "*.gguf *.safetensors config.json variant.json slice.json", "All files", "*"]
LINUX_HELPERS = ("zenity", "kdialog", "matedialog", "qarma")


class FileDialog:
    """At most one dialog at a time; `poll` gives its answer once."""

    def __init__(self) -> None:
        self._dialog: Any = None

    @property
    def open(self) -> bool:
        return self._dialog is not None

    def ask(self, folder: Path | None) -> None:
        """Show the dialog. Raises DeviceError where the system has none."""
        if self._dialog is not None:
            return
        if sys.platform == "linux" and not any(map(shutil.which, LINUX_HELPERS)):
            raise DeviceError(
                "No file dialog is installed (zenity or kdialog). Drop the file on the window, "
                "or type its path under Models."
            )
        from imgui_bundle import portable_file_dialogs as dialogs

        start = str(folder) if folder and str(folder).isprintable() else ""
        self._dialog = dialogs.open_file("Open a model", start, FILTERS)

    def poll(self) -> Path | None:
        """The chosen file, when one has just been chosen. Raises RequestError where its name cannot
        be told."""
        if self._dialog is None or not self._dialog.ready(0):
            return None
        dialog, self._dialog = self._dialog, None
        try:
            chosen = dialog.result()
        except UnicodeDecodeError as error:
            raise RequestError(
                "The name of the chosen file is not UTF-8, which the file dialog cannot say. Drop "
                "the file on the window, or name it on the command line."
            ) from error
        return Path(chosen[0]) if chosen else None

    def close(self) -> None:
        if self._dialog is not None:
            self._dialog.kill()
            self._dialog = None
