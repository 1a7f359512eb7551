"""Addresses that were used, as the settings have them; what is read is untrusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from llm_lite.core.checked import CheckError, convert
from llm_lite.core.errors import FileError
from llm_lite.core.files.writing import reason
from llm_lite.core.messages.remote import ApiKey
from llm_lite.core.plain_text import lines
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.remote.state import (
    MOST_RECENT,
    KeptAddress,
    RecentAddress,
    RemoteState,
)

LONGEST_NAME = 300
LONGEST_KEY = 4096


def kept_addresses(found: Any, problems: list[str]) -> tuple[KeptAddress, ...]:
    """What is no address is named and left out; of a key, nothing is said."""
    if not isinstance(found, list):
        problems.append("settings: addresses is not a list; it is left empty.")
        return ()
    good = [one for row in found[:MOST_RECENT] if (one := _kept(row)) is not None]
    if len(good) < len(found[:MOST_RECENT]):
        problems.append("settings: addresses: some entries are no addresses, and are left out.")
    return tuple(good)


def _kept(row: Any) -> KeptAddress | None:
    try:
        kept = convert(row, KeptAddress)
    except CheckError:
        return None
    key = kept.key
    whole = key if len(key) <= LONGEST_KEY and key.isascii() and key.isprintable() else ""
    return KeptAddress(lines(kept.address), lines(kept.model[:LONGEST_NAME]), whole)


def own(path: Path) -> None:
    """Nobody else may read the file, which has a key in it; one that is written in its place keeps
    its mode. FileError where that cannot be."""
    try:
        path.touch(mode=0o600)
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise FileError(path, f"cannot be made yours alone: {reason(error)}") from None


def restore(settings: Settings, state: AppState) -> AppState:
    recent = (RecentAddress(one.address, one.model, ApiKey(one.key)) for one in settings.addresses)
    return replace(state, remote=RemoteState(recent=tuple(recent)))


def remember(state: AppState, settings: Settings) -> dict[str, Any]:
    recent = state.remote.recent
    return {"addresses": tuple(KeptAddress(one.address, one.model, one.key.text) for one in recent)}
