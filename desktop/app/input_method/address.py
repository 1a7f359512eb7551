"""The address of IBus, and the choice whether this program talks to it.

The daemon writes its address into a file for each display (`ibus_get_socket_path` of libibus);
fcitx5 writes the same file for its own imitation of IBus.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

LONGEST_FILE = 4096  # bytes
MACHINE_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
OURS = ("", "ibus", "fcitx")  # names of input methods for X11 that IBus's interface replaces


def named_method(environment: Mapping[str, str]) -> str:
    """Return the input method for X11 that the session names, as `ibus` in
    `XMODIFIERS=@im=ibus`."""
    for part in environment.get("XMODIFIERS", "").split("@"):
        if part.startswith("im="):
            return part.removeprefix("im=").strip()
    return ""


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Return True if this program sends keys to IBus itself, rather than by the window system."""
    if sys.platform != "linux" or named_method(environment) not in OURS:
        return False
    return named_method(environment) == "ibus" or find(environment) is not None


def find(environment: Mapping[str, str]) -> str | None:
    """Return the D-Bus address of the daemon of this display; None where none runs."""
    if given := environment.get("IBUS_ADDRESS"):
        return given
    for path in _files(environment):
        try:
            with path.open("rb") as file:
                text = file.read(LONGEST_FILE).decode("utf-8", "replace")
        except OSError:
            continue
        lines = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        if (address := lines.get("IBUS_ADDRESS")) and _lives(lines.get("IBUS_DAEMON_PID", "")):
            return address
    return None


def _files(environment: Mapping[str, str]) -> list[Path]:
    if given := environment.get("IBUS_ADDRESS_FILE"):
        return [Path(given)]
    home = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "/")) / ".config")
    folder, machine = Path(home) / "ibus" / "bus", _machine()
    names = []
    if wayland := environment.get("WAYLAND_DISPLAY"):
        names.append(f"{machine}-unix-{wayland}")
    host, _, number = environment.get("DISPLAY", ":0").rpartition(":")
    names.append(f"{machine}-{host or 'unix'}-{number.partition('.')[0]}")
    return [folder / name for name in names]


def _machine() -> str:
    for path in MACHINE_FILES:
        try:
            return path.read_text("utf-8", "replace").strip()[:64]
        except OSError:
            continue
    return "machine-id"


def _lives(process: str) -> bool:
    """Return True if the daemon that wrote the file runs; a file without a process id is
    believed."""
    if not process.strip().isdecimal():
        return True
    return Path("/proc", process.strip()).exists() or not Path("/proc/self").exists()
