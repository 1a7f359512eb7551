"""Fields that are shown when something is to be typed into them."""

from __future__ import annotations

from llm_lite.desktop.widgets.ui import Ui

OPEN = "remote.open"  # in the memory of the window: fields of a server's address are shown
ADDRESS = "remote.address"


def open_address(ui: Ui) -> None:
    """Show where the address of a server is typed, in the panel of models."""
    ui.memory[OPEN] = True
    ui.show_popover("models", ADDRESS)
