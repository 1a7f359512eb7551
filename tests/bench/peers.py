"""Set up what we are measured against: llama.cpp, built for this machine, and its model files.

    python -m tests.bench.peers [--folder build/peers] [--model MODEL.gguf] [--vulkan]

Builds the source package llama-cpp-python with native flags in a virtual environment of its own
(minutes; needs a C++ compiler; with its Vulkan backend in a second environment, which needs the
Vulkan headers and glslc too), then lets llama.cpp's own quantizer write the model in F32, F16,
Q8_0 and Q4_0. What is there already is kept.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

from core import catalog

FOLDER = Path("build/peers")
_PACKAGE = "llama-cpp-python"
_WORKER = Path(__file__).with_name("llama_cpp_worker.py")
_ENVIRONMENTS = {"cpu": "llama.cpp", "vulkan": "llama.cpp-vulkan"}
_FLAGS = {"cpu": "-DGGML_NATIVE=ON", "vulkan": "-DGGML_NATIVE=ON -DGGML_VULKAN=ON"}
FILES = {"F32": "f32.gguf", "F16": "f16.gguf", "Q8_0": "q8_0.gguf", "Q4_0": "q4_0.gguf"}


def python_of(folder: Path, backend: str = "cpu") -> Path:
    """The interpreter of the peer's environment for a backend of ours."""
    return folder / _ENVIRONMENTS[backend] / "bin" / "python"


def files_of(folder: Path, model: Path) -> dict[str, Path]:
    """Model files by llama.cpp's name of their type; the model itself is Q4_1."""
    return {"Q4_1": model, **{name: folder / "models" / file for name, file in FILES.items()}}


def set_up(folder: Path, model: Path, backend: str = "cpu") -> None:
    """subprocess.CalledProcessError where the build or the quantizer fails."""
    _build(folder, backend)
    _write_models(folder, model, python_of(folder, backend))


def _build(folder: Path, backend: str) -> None:
    python = python_of(folder, backend)
    if not python.exists():
        venv.create(python.parents[1], with_pip=True)
    if subprocess.run([python, "-c", "import llama_cpp"], capture_output=True).returncode:
        print(f"building {_PACKAGE} for this machine: some minutes", flush=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--no-binary", _PACKAGE, _PACKAGE],
            env={**os.environ, "CMAKE_ARGS": f"{_FLAGS[backend]} -DLLAVA_BUILD=OFF"},
            check=True,
        )


def _write_models(folder: Path, model: Path, python: Path) -> None:
    (folder / "models").mkdir(exist_ok=True)
    files = files_of(folder, model)
    for name, path in files.items():
        if path.exists():
            continue
        source = model if name == "F32" else files["F32"]
        print(f"writing {path}", flush=True)
        partial = path.with_suffix(".partial")
        subprocess.run([python, _WORKER, "quantize", source, partial, name], check=True)
        partial.rename(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--model", help="a GGUF file; the default model is left out")
    parser.add_argument("--vulkan", action="store_true", help="build its Vulkan backend")
    arguments = parser.parse_args()
    try:
        backend = "vulkan" if arguments.vulkan else "cpu"
        set_up(arguments.folder, catalog.resolve(arguments.model), backend)
    except subprocess.CalledProcessError as error:
        print(f"the peer cannot be set up: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
