"""Compute pipelines that executors and attention maps share, and that are kept a while after
use."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from llm_lite.core.gpu.pipelines import CachingDevice, ComputePipeline

MOST_UNUSED = 128  # a model has about fifty; a software driver takes 1.6 MB for one

Key = tuple[str, tuple[tuple[str, int | float], ...]]  # variant, constants


class PipelineStore:
    """The pipelines of one device, for any thread. The model that is opened next needs most of them
    again."""

    def __init__(self, device: CachingDevice) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._made: dict[Key, ComputePipeline] = {}  # those in use and, oldest first, those not
        self._users: Counter[Key] = Counter()

    def take(self, key: Key) -> ComputePipeline:
        """Return a pipeline, made at its first use; it stays until it is released as often as it
        was taken. Raises DeviceError and OutOfDeviceMemoryError."""
        with self._lock:
            self._users[key] += 1
            found = self._made.get(key)
        return found or self._make(key)

    def _make(self, key: Key) -> ComputePipeline:
        try:
            made = ComputePipeline(self._device, key[0], dict(key[1]))
        except BaseException:
            self.release([key])
            raise
        with self._lock:
            first = self._made.setdefault(key, made)
        if first is not made:  # another thread was faster
            made.close()
        return first

    def release(self, keys: list[Key]) -> None:
        with self._lock:
            self._users.subtract(keys)
            for key in keys:
                if not self._users[key] and key in self._made:
                    self._made[key] = self._made.pop(key)
            unused = [key for key in self._made if not self._users[key]]
            gone = [self._made.pop(key) for key in unused[: max(0, len(unused) - MOST_UNUSED)]]
        for pipeline in gone:
            pipeline.close()

    def close(self) -> None:
        for pipeline in self._made.values():
            pipeline.close()
        self._made.clear()


class StoringDevice(Protocol):
    """A device with a store of pipelines."""

    @property
    def pipelines(self) -> PipelineStore: ...


class Pipelines:
    """The pipelines that one user has taken from a device's store."""

    def __init__(self, device: StoringDevice) -> None:
        self._store = device.pipelines
        self._taken: dict[Key, ComputePipeline] = {}

    def get(self, variant: str, constants: Mapping[str, int | float]) -> ComputePipeline:
        """Return a pipeline of these constants. Raises DeviceError and OutOfDeviceMemoryError."""
        key = variant, tuple(sorted(constants.items()))
        if key not in self._taken:
            self._taken[key] = self._store.take(key)
        return self._taken[key]

    def close(self) -> None:
        """Release the pipelines, which the device may not use any more."""
        self._store.release(list(self._taken))
        self._taken.clear()
