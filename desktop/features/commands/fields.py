"""Fields that are shown when something is to be typed into them."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.desktop.widgets.ui import Ui

ADDRESS = "remote.address"


class ServerFields(Struct):
    """The fields in which a person names a server."""

    shown: bool = False
    address: str = ""
    key: str = ""
    keeps_key: bool = False


def open_address(ui: Ui) -> None:
    """Show where the address of a server is typed, in the panel of models."""
    ui.local(ServerFields).shown = True
    ui.show_popover("models", ADDRESS)
