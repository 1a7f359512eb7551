"""The read bandwidth of this machine's memory: measured once for each processor and device, and
kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.files.json_text import finite, read_object
from llm_lite.core.files.places import user_folder
from llm_lite.core.files.writing import make_folder, write_file
from llm_lite.core.processor import default_threads, processor_name, read_gb_s

if TYPE_CHECKING:
    from llm_lite.core.gpu.device import Device
    from llm_lite.core.gpu.info import DeviceInfo

_MOST = 1e6  # GB/s; more is no measurement
_KEPT = 64  # machines and devices


def known_gb_s(info: DeviceInfo | None = None, file: Path | None = None) -> float | None:
    """Return what was measured before; None if nothing was. Reads a small file."""
    value = _read(file or _file()).get(_key(info))
    return value if value is not None and 0 < value < _MOST else None


def measured_gb_s(
    device: Device | None = None, *, again: bool = False, file: Path | None = None
) -> float:
    """Return the kept value, or measure now, which takes a tenth of a second and is no work for a
    thread that draws; `again`: measure in any case. DeviceError. If it cannot be kept, it is
    measured again."""
    file, info = file or _file(), None if device is None else device.info
    kept = None if again else known_gb_s(info, file)
    if kept is not None:
        return kept
    if device is None:
        value = read_gb_s()
    else:
        from llm_lite.core.gpu.bandwidth import read_gb_s as device_read_gb_s

        value = device_read_gb_s(device)
    _keep(file, _key(info), value)
    return value


def _file() -> Path:
    return user_folder("cache") / "bandwidth.json"


def _key(info: DeviceInfo | None) -> str:
    if info is None:
        return f"{processor_name()}, {default_threads()} threads"
    return f"{info.name}, {info.driver}"


def _read(file: Path) -> dict[str, float]:
    """Return the kept values; {} if there is no file, or none that can be understood: it is
    measured again."""
    try:
        values = read_object(file)
    except LlmLiteError:
        return {}
    found = {key: finite(value) for key, value in values.items()}
    return {key: value for key, value in found.items() if value is not None}


def _keep(file: Path, key: str, value: float) -> None:
    values = {name: gb_s for name, gb_s in _read(file).items() if name != key}
    newest = dict([*values.items(), (key, round(value, 2))][-_KEPT:])
    try:
        make_folder(file.parent)
        write_file(file, json.dumps(newest, indent=1).encode())
    except (LlmLiteError, OSError):
        return
