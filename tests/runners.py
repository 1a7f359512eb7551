"""Models on executors, for tests."""

import contextlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

from llm_lite.core.gpu.device import Device
from llm_lite.core.loading import loader
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import EngineOptions

_MODULES = {"numpy": "reference", "cpu": "cpu", "vulkan": "vulkan"}
# Those of the source tree, all of which must work, and those of packages that are named:
# TEST_EXECUTORS="template uca" python -m pytest tests/core
BACKENDS = (
    *(
        name
        for name, module in _MODULES.items()
        if importlib.util.find_spec(f"llm_lite.core.exec.{module}")
    ),
    *os.environ.get("TEST_EXECUTORS", "").split(),
)


def exact(backend: str = "numpy", **changes: object) -> EngineOptions:
    """Float32 throughout: what can be compared to the last few bits."""
    defaults = {"backend": backend, "keys": "fp32", "values": "fp32", "activations": "a32"}
    return EngineOptions(**defaults | changes)  # type: ignore[arg-type]


@contextlib.contextmanager
def running(
    path: Path,
    options: EngineOptions | None = None,
    *,
    device: Device | None = None,
    every_output: bool = False,
) -> Iterator[Runner]:
    warnings: list[str] = []
    file = loader.open_model(str(path), lambda *_: None, warnings.append)
    try:
        runner = loader.start(
            file, options or exact(), device, lambda *_: None, every_output=every_output
        )
        try:
            yield runner
        finally:
            runner.close()
    finally:
        file.close()
    assert warnings == []
