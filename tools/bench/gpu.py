"""What a graphics processor does with the Vulkan executor: rates, share of its bandwidth, frames.

    python -m tools.bench.gpu [--parts rates,frames] [--device N] [--large NAME] [--json FILE]

Needs the repository and its build alone. The part `rates` shows what a step of the default model
costs beside its bytes, or, where that is not installed, of its shapes with random weights. `large`
writes random weights of a larger model's shapes in int4, which fill a device as it is filled in
use. `frames` tells how long frames took while the same device read a long prompt and answered, and
`tour` opens all views. `--validate` puts all under the validation layers, which make it slower.
What is done is written at once: what fails or does not fit in `--minutes` is named as left out, and
the rest stays.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from llm_lite.core.convert.synthetic import write_synthetic
from llm_lite.core.errors import FileError
from llm_lite.core.hub import catalog
from tests.paths import ROOT

PARTS = ("rates", "large", "frames", "tour")
# Activations with each mode: integer dot products, cooperative matrices, plain shaders
MODES = {"as-stored": ("a8",), "int4": ("a8", "a32"), "int8": ("a8",), "fp16": ("a32",)}
SHARE = 0.70  # of the device's bandwidth, int4 of a model that fills it
FRAME_MS = 16.7  # 95 % of the frames while a prompt is read and an answer written
STILL_S = 30.0  # between two signs of life of a long command
_COMMAND = "import sys; from llm_lite.cli.main import main; sys.exit(main(sys.argv[1:]))"


class LeftOutError(RuntimeError):
    """A command failed or there was no time for it."""


@dataclass
class Run:
    """What is measured so far, and until when more may be (seconds of time.monotonic)."""

    arguments: argparse.Namespace
    folder: Path
    until: float
    report: dict[str, Any] = field(default_factory=dict)

    def command(self, words: list[str]) -> str:
        """What `llm-lite WORDS` prints, or a module of ours; LeftOutError."""
        on = [] if self.arguments.device is None else ["--device", str(self.arguments.device)]
        how = [] if words[0] == "-m" else ["-c", _COMMAND]
        return run([*how, *words, "--backend", "vulkan", *on], self.until)

    def measured(self, results: Iterator[dict[str, Any]], name: str) -> None:
        """Add what a part yields as it comes, or why no more does."""
        try:
            for found in results:
                self.report.update(found)
                self.write()
        except (LeftOutError, OSError) as error:
            say(f"left out of {name}: {error}")
            self.report.setdefault("left_out", []).append(f"{name}: {error}")
        self.write()

    def write(self) -> None:
        if self.arguments.json:
            self.arguments.json.write_text(json.dumps(self.report, indent=1) + "\n")


def main() -> int:
    """0, or 1 where something was left out."""
    arguments = _arguments()
    if arguments.validate:
        os.environ["LLM_LITE_VALIDATION"] = "1"
    until = time.monotonic() + 60 * arguments.minutes
    with tempfile.TemporaryDirectory(prefix="llm-lite-gpu-") as folder:
        done = Run(arguments, Path(folder), until)
        done.report["date"] = datetime.now(UTC).strftime("%Y-%m-%d")
        done.report["validated"] = arguments.validate
        for name in arguments.parts:
            done.measured(_MEASURES[name](done), name)
    _print(done.report)
    return 1 if "left_out" in done.report else 0


def run(command: list[str], until: float) -> str:
    """What Python prints; its errors are shown. LeftOutError where it fails or is too slow."""
    what = " ".join(word for word in command if word != _COMMAND)
    say(what)
    whole = [sys.executable, *command]
    with subprocess.Popen(whole, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        began = time.monotonic()
        while True:
            left = until - time.monotonic()
            try:
                output, _ = process.communicate(timeout=max(0.0, min(STILL_S, left)))
                break
            except subprocess.TimeoutExpired:
                if left <= STILL_S:
                    process.kill()
                    process.communicate()
                    raise LeftOutError("no time was left") from None
                say(f"... {time.monotonic() - began:.0f} s")
    if process.returncode:
        raise LeftOutError(f"{what} ended with code {process.returncode}")
    return output


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _rates(done: Run) -> Iterator[dict[str, Any]]:
    model = _default(done)
    for mode in done.arguments.modes:
        for activations in MODES[mode]:
            yield _with(done, _bench(done, model, mode, activations))


def _large(done: Run) -> Iterator[dict[str, Any]]:
    name = done.arguments.large
    target = done.folder / name
    say(f"writing {name} with random weights")
    write_synthetic(name, target, form="variant", seed=1)
    for activations in MODES["int4"]:
        yield _with(done, _bench(done, target, "as-stored", activations))


def _with(done: Run, row: dict[str, Any]) -> dict[str, Any]:
    return {"rates": [*done.report.get("rates", []), row]}


def _bench(done: Run, model: Path | None, mode: str, activations: str) -> dict[str, Any]:
    sizes = {"repeat": done.arguments.repeat, "conversation": 0}
    sizes |= {"prompt-tokens": done.arguments.prompt, "new-tokens": done.arguments.new}
    words = ["bench", *([str(model)] if model else []), "--json"]
    words += ["--mode", mode, "--activations", activations]
    found = json.loads(done.command(words + [w for k, v in sizes.items() for w in _option(k, v)]))
    kept = ("activations", "prefill_tok_s", "decode_tok_s", "bandwidth_share", "read_gb_s_measured")
    row = {"model": model.stem if model else catalog.DEFAULT, "mode": mode}
    row |= {key: found[key] for key in kept}
    say(_line(row))
    return row


def _frames(done: Run) -> Iterator[dict[str, Any]]:
    model = _default(done)
    words = ["-m", "tools.bench.prompt_frames", *(_option("model", model) if model else [])]
    words += [*_option("words", done.arguments.words), *_option("tokens", done.arguments.new)]
    found = json.loads(done.command(words))
    yield {"device": found.pop("device"), "frames": found}


def _tour(done: Run) -> Iterator[dict[str, Any]]:
    folder = done.folder / "tour"
    model = _default(done)
    words = ["-m", "tools.tour", str(folder), *(_option("model", model) if model else [])]
    done.command(words)
    report = json.loads((folder / "report.json").read_text("utf-8"))
    kept = ("executor", "stats", "frame_ms", "startup", "validation_messages")
    yield {"device": report["device"], "tour": {key: report[key] for key in kept}}


_MEASURES: dict[str, Callable[[Run], Iterator[dict[str, Any]]]] = {
    "rates": _rates,
    "large": _large,
    "frames": _frames,
    "tour": _tour,
}


def _default(done: Run) -> Path | None:
    """None: the default model, which is installed; else its shapes with random weights."""
    try:
        catalog.resolve(None)
    except FileError:
        target = done.folder / "smollm2-135m-random.gguf"
        if not target.exists():
            say(f"writing {target.name}: {catalog.DEFAULT} is not installed")
            write_synthetic("smollm2-135m", target, form="gguf", seed=1)
        return target
    return None


def _option(name: str, value: object) -> list[str]:
    return [f"--{name}", str(value)]


def _print(report: dict[str, Any]) -> None:
    device = report.get("device")
    if device:
        print(f"{device['name']}, {device['driver']}")
    for row in report.get("rates", []):
        print(_line(row))
    for part in ("frames", "tour"):
        if part in report:
            _print_frames(part, report[part], report["validated"])
    print(f"share of bandwidth, aim {SHARE} of a model that fills the device")
    for text in report.get("left_out", []):
        print(f"left out: {text}")


def _print_frames(part: str, found: dict[str, Any], validated: bool) -> None:
    for phase, frames in found["frame_ms"].items():
        times = f"p50 {frames['p50']:6.1f} ms, p95 {frames['p95']:6.1f} ms"
        print(f"{part:6} {phase:8} {times} of {frames['frames']} frames, aim {FRAME_MS}")
    if validated:
        print(f"{part:6} {len(found['validation_messages'])} messages of the validation layers")


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['model']:24} {row['mode']:10} {row['activations']:4} "
        f"prefill {row['prefill_tok_s']['median']:9.1f} "
        f"decode {row['decode_tok_s']['median']:7.1f} tok/s, "
        f"{row['bandwidth_share']:.0%} of {row['read_gb_s_measured']:.0f} GB/s"
    )


def _some_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        found = [name for name in known if name in text.split(",")]
        if len(found) != len(text.split(",")):
            problem = f"expected some of {','.join(known)}, found {text!r}"
            raise argparse.ArgumentTypeError(problem)
        return found

    return parse


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", type=int, help="see `llm-lite doctor`")
    parser.add_argument("--parts", type=_some_of(PARTS), help=f"of {','.join(PARTS)}")
    parser.add_argument("--modes", type=_some_of(MODES), default=list(MODES))
    parser.add_argument("--large", help="a model of `llm-lite synth`; adds the part `large`")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--words", type=int, default=2000, help="of the prompt of `frames`")
    parser.add_argument("--minutes", type=float, default=9.5, help="for all of it")
    parser.add_argument("--validate", action="store_true", help="with the validation layers")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.parts is None:
        arguments.parts = [name for name in PARTS if name != "large" or arguments.large]
    arguments.large = arguments.large or "gemma-3n-e2b"
    return arguments


if __name__ == "__main__":
    sys.exit(main())
