"""Files as llama.cpp's quantizer writes them, opened as stored, against the numbers they stand for.

    python -m tools.cross.llama_cpp_files [--folder build/peers] [--types Q4_K_M MXFP4]
        [--models SmolLM2 wide] [--hardware | --no-vulkan]

The quantizer writes each type from SmolLM2, whose rows are no whole super-blocks, so that K-quants
come mixed with types of 32, and from a random model whose rows are. The reference is no code of
ours: the `gguf` package decodes the file into float32, which our executors run as any float32
model; NumPy's definition of the ops says that they do so rightly. Logits of a text are compared
after tokens that were read together and after others that were decoded one by one. As stored with
float32 activations they must agree; int8 activations round, and may differ as docs/quantization.md
allows. `tools.bench.peers` builds the peer. Vulkan runs on the first device, validated; with
`--hardware` a software driver runs the kernels of hardware, as in `tools.cross.vulkan_hardware`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from numpy.typing import NDArray

import llm_lite
from llm_lite.core.errors import LlmLiteError
from llm_lite.core.formats.gguf_reader import open_gguf
from llm_lite.core.formats.gguf_writer import GgufTensor, write_gguf
from llm_lite.core.gpu.device import Device
from llm_lite.core.hub import catalog
from llm_lite.core.loading.loader import open_model
from llm_lite.core.metrics.divergence import compare
from llm_lite.core.quant.registry import FORMATS
from tests.make_gguf import write_tiny_llama
from tests.paths import ROOT
from tests.runners import exact, running
from tools.bench import peers
from tools.cross.vulkan_hardware import take_for_hardware

TYPES = (
    *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K_M", "Q4_K_S", "Q4_K_M", "Q5_K_M"),
    *("Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"),
)
WIDE: dict[str, Any] = {
    "layers": 3,
    "width": 768,
    "heads": 12,
    "kv_heads": 4,
    "ffn": 1792,
    "vocab": 2048,
}
READ, DECODED = 128, 16  # tokens that are read together, and one by one behind them
FEW = {"numpy": (16, 0), "vulkan": (32, 4)}  # for executors that take their time
EXACT, ROUNDED = 1e-5, 3e-3  # nats, mean KL divergence: with float32 activations, with int8
ALLOWED = dict.fromkeys(("numpy", "cpu", "vulkan"), EXACT)
ALLOWED |= dict.fromkeys(("cpu a8", "vulkan a8"), ROUNDED)
ANSWER = 8  # tokens
QUESTION = "What is the capital of France?"
CONTEXT = 256

Logits = NDArray[np.float32]


@dataclass
class Line:
    """What was found of a file: mean KL divergences by executor, and its first answer."""

    model: str
    name: str
    formats: dict[str, int]  # matrices by their format
    divergence: dict[str, float]
    answers: dict[str, str]

    def problems(self) -> list[str]:
        found = [
            f"{where}: {value:.3g} nats, allowed {ALLOWED[where]:g}"
            for where, value in self.divergence.items()
            if not value <= ALLOWED[where]
        ]
        found += [f"{name} is not multiplied" for name in self.formats if not FORMATS[name].native]
        if self.model == "wide" and format_of(self.name) not in self.formats:
            found.append(f"the file has no {format_of(self.name)}")
        if self.model == "SmolLM2":  # random weights may end an answer at once
            found += [f"no answer on {where}" for where, text in self.answers.items() if not text]
        return found

    def __str__(self) -> str:
        blocks = ", ".join(f"{name} {count}" for name, count in self.formats.items())
        found = self.divergence
        numbers = " | ".join(f"{found[where]:.2g}" if where in found else "" for where in ALLOWED)
        answer = self.answers["cpu"].replace("\n", " ") if self.model == "SmolLM2" else ""
        return f"| {self.model} {self.name} | {blocks} | {numbers} | {answer} |"


def check_file(model: str, name: str, path: Path, folder: Path, device: Device | None) -> Line:
    tokens, formats = _tokens_and_formats(path)
    plain = folder / "plain.gguf"
    decode_file(path, plain)  # over the one of the file before
    expected = _logits(plain, "cpu", tokens, READ, DECODED)
    found = {
        "numpy": _logits(plain, "numpy", tokens, *FEW["numpy"]),
        "cpu": _logits(path, "cpu", tokens, READ, DECODED),
        "cpu a8": _logits(path, "cpu", tokens, READ, DECODED, activations="a8"),
    }
    answers = {"cpu": _answer(path, "cpu")}
    if device:
        few = partial(_logits, path, "vulkan", tokens, *FEW["vulkan"], device=device)
        found |= {"vulkan": few(), "vulkan a8": few(activations="a8")}
        answers["vulkan"] = _answer(path, "vulkan")
    divergence = {where: _divergence(expected[: len(rows)], rows) for where, rows in found.items()}
    return Line(model, name, formats, divergence, answers)


def decode_file(source: Path, target: Path) -> None:
    """The same model in float32, as the `gguf` package decodes it."""
    with target.open("wb") as file:
        tensors = [
            GgufTensor(t.name, "f32", tuple(map(int, t.shape[::-1])), partial(_decoded, t))
            for t in GGUFReader(source).tensors
        ]
        write_gguf(file, _metadata(source), tensors)


def _decoded(tensor: Any) -> Iterator[NDArray[np.uint8]]:
    values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False)
    yield np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def _metadata(source: Path) -> Mapping[str, object]:
    with open_gguf(source) as file:
        simple = (str, bool, int, float)
        found = {k: v if isinstance(v, simple) else [*v] for k, v in file.metadata.items()}
    return {key: value for key, value in found.items() if value != []}


def _tokens_and_formats(path: Path) -> tuple[list[int], dict[str, int]]:
    """The first tokens of a text, and how many matrices there are of each format."""
    text = (ROOT / "assets" / "sample.txt").read_text("utf-8")
    file = open_model(str(path), lambda *_: None, print)
    try:
        tokens = file.tokenizer.encode(text, parse_special=False)[: READ + DECODED]
        matrices = (t.dtype for t in file.file.tensors.values() if len(t.shape) > 1)
        return tokens, dict(Counter(matrices).most_common())
    finally:
        file.close()


def _logits(
    path: Path,
    backend: str,
    tokens: list[int],
    read: int,
    decoded: int,
    *,
    activations: str = "a32",
    device: Device | None = None,
) -> Logits:
    """Return logits of the first `read` tokens together, then of each of the `decoded` ones
    behind them."""
    options = exact(backend, context=CONTEXT, activations=activations, pool_budget=0)
    with running(path, options, device=device, every_output=True) as runner:
        rows = [runner.session.logits(tokens[:read])]
        for token in tokens[read : read + decoded]:
            rows.append(runner.session.decode(token).reshape(1, -1).copy())
        return np.concatenate(rows)


def _divergence(expected: Logits, found: Logits) -> float:
    return float(compare(expected, found, np.zeros(len(expected), np.int64)).kld.mean())


def _answer(path: Path, backend: str) -> str:
    with llm_lite.load(path, backend=backend, context=CONTEXT) as model:
        return model.generate(QUESTION, temperature=0, max_new_tokens=ANSWER)


def format_of(name: str) -> str:
    """Our name of the blocks that llama.cpp calls a file by: Q4_K_M has q4_k."""
    return "_".join(name.lower().split("_")[:2])


def main() -> int:
    """0, or 1 where a line fails or a validation layer said something."""
    arguments = _arguments()
    python = peers.python_of(arguments.folder)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="llm-lite-files-")))
        device = None if arguments.no_vulkan else Device.open(validation=True)
        if device:
            stack.callback(device.close)
            if arguments.hardware:
                take_for_hardware(device)
        sources = {
            "SmolLM2": peers.files_of(arguments.folder, catalog.resolve(None))["F32"],
            "wide": write_tiny_llama(folder / "f32.gguf", dtype="f32", context=CONTEXT, **WIDE),
        }
        print(f"| file | matrices | {' | '.join(ALLOWED)} | answer |")
        print("| --- |" + " --- |" * (len(ALLOWED) + 2), flush=True)
        failed = 0
        for model in arguments.models:
            for name in arguments.types:
                path = folder / f"{name}.gguf"
                peers.write_file(python, sources[model], path, name)
                problems = _problems_of(model, name, path, folder, device)
                path.unlink()
                for problem in problems:
                    print(f"FAILED {model} {name}: {problem}", flush=True)
                failed += len(problems)
        messages = device.validation_messages if device else []
        print(f"{len(messages)} messages of the validation layers", *messages, sep="\n")
    return 1 if failed or messages else 0


def _problems_of(
    model: str, name: str, path: Path, folder: Path, device: Device | None
) -> list[str]:
    """Prints the line of a file. One that cannot be run does not end the rest."""
    try:
        line = check_file(model, name, path, folder, device)
    except LlmLiteError as error:
        return [str(error)]
    print(line, flush=True)
    return line.problems()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=peers.FOLDER)
    parser.add_argument("--types", nargs="+", default=TYPES)
    parser.add_argument(
        "--models", nargs="+", choices=("SmolLM2", "wide"), default=["SmolLM2", "wide"]
    )
    vulkan = parser.add_mutually_exclusive_group()
    vulkan.add_argument("--hardware", action="store_true", help="the kernels of hardware")
    vulkan.add_argument("--no-vulkan", action="store_true", help="the processor alone")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
