"""What is estimated that a model takes, beside what it took: a fresh process for each, whose peak
of resident memory counts after the context was filled and some tokens were decoded.

    python -m tools.bench.fit                      all cases, into tools/bench/results/fit.json
    python -m tools.bench.fit --only smollm2-135m int4  those whose names have all these words

On lavapipe what the device allocates is memory of the process, so it is resident and counts once.
A device's cache is zeroed when it is made, and so resident whole: there only the largest step is
filled, as lavapipe reads some 50 tokens a second.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from llm_lite.core.convert.synthetic import write_synthetic
from llm_lite.core.messages import MODES
from tests.paths import ROOT

RESULTS = Path(__file__).with_name("results") / "fit.json"
CONTEXTS = (1024, 4096, 8192)
DECODED = 8  # tokens
FILLED_ON_DEVICE = 300  # tokens: more than two of the largest steps
LIMIT = 10.0  # percent

# The process tells of itself: what the system tells of ended children counts their parents too.
_WORKER = """
import json, re, sys
import numpy as np
from llm_lite.core.loading.loader import open_model, start
from llm_lite.core.messages import EngineOptions
model, mode, context, backend, filled = json.loads(sys.argv[1])
file = open_model(model, lambda *_: None, print, later=True)
options = EngineOptions(backend=backend, mode=mode, context=context, force=True)
runner = start(file, options, None, lambda *_: None)
random = np.random.default_rng(1)
vocabulary = runner.model_info.vocabulary
runner.session.prefill(random.integers(0, vocabulary, filled).tolist())
for token in random.integers(0, vocabulary, DECODED).tolist():
    runner.session.decode(token)
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
print("peak", int(peak) * 1024)
""".replace("DECODED", str(DECODED))
_ESTIMATE = """
import json, sys
from llm_lite.core.hub import catalog
from llm_lite.core.hub.fit.machine import this_machine
from llm_lite.core.loading import backends
from llm_lite.core.loading.fitting import Fitting, described
from llm_lite.core.loading.sources import open_source
from llm_lite.core.messages import EngineOptions
model, mode, context, backend, _ = json.loads(sys.argv[1])
options = EngineOptions(backend=backend, mode=mode, context=context)
choice = backends.choose(options, None)
machine = this_machine(choice.info, started=False)
source = open_source(catalog.resolve(model))
fit = Fitting(described(source), choice, machine).fit(options)
print("parts", json.dumps({part.name: part.host + part.device for part in fit.parts}))
"""


@dataclass(frozen=True, slots=True)
class Case:
    title: str
    model: str | None  # a path; None: the bundled one
    mode: str
    context: int
    backend: str

    @property
    def filled(self) -> int:
        """Tokens of the prompt."""
        most = self.context - DECODED
        return most if self.backend == "cpu" else min(most, FILLED_ON_DEVICE)


@dataclass(frozen=True, slots=True)
class Row:
    """MiB."""

    model: str
    mode: str
    context: int
    backend: str
    parts: dict[str, float]
    estimate: float
    peak: float

    @property
    def error(self) -> float:
        """Percent of the peak."""
        return 100 * (self.estimate - self.peak) / self.peak


def cases(folder: Path) -> Iterator[Case]:
    """SmolLM2 as it is; shapes of larger ones with random weights."""
    some = ("as-stored", "int4", "fp16")
    models: list[tuple[str, Path | None, Sequence[str], str]] = [
        ("smollm2-135m", None, MODES, "cpu"),
        ("smollm2-135m", None, some, "vulkan"),
        ("gemma-3n-e2b int4", folder / "gemma-3n-e2b-int4", ["as-stored"], "cpu"),
        ("llama-1b gguf", folder / "llama-1b.gguf", ["as-stored", "fp16"], "cpu"),
        ("llama-1b int4", folder / "llama-1b-int4", ["as-stored"], "cpu"),
        ("llama-1b int4", folder / "llama-1b-int4", ["as-stored"], "vulkan"),
        ("gemma-4-e4b int4", folder / "gemma-4-e4b-int4", ["as-stored"], "cpu"),
    ]
    for title, path, modes, backend in models:
        for mode in modes:
            for context in CONTEXTS:
                yield Case(title, None if path is None else str(path), mode, context, backend)


def make(path: Path) -> None:
    """The synthetic model at a path, unless it is there."""
    if path.exists():
        return
    print(f"writing {path.name}", flush=True)
    if path.suffix == ".gguf":
        write_synthetic(path.stem, path, form="gguf")
    else:
        name, _, mode = path.name.rpartition("-")
        write_synthetic(name, path, mode=mode)


def measure(case: Case) -> Row:
    values = json.dumps([case.model, case.mode, case.context, case.backend, case.filled])
    parts = json.loads(_said(_ESTIMATE, values, "parts "))
    peak = int(_said(_WORKER, values, "peak "))
    mib = {name: round(size / 2**20, 1) for name, size in parts.items()}
    total = sum(parts.values()) / 2**20
    return Row(
        case.title,
        case.mode,
        case.context,
        case.backend,
        mib,
        round(total, 1),
        round(peak / 2**20, 1),
    )


def _said(code: str, values: str, word: str) -> str:
    words = [sys.executable, "-c", code, values]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    found = [line for line in done.stdout.splitlines() if line.startswith(word)]
    if done.returncode or not found:
        raise RuntimeError(f"{values}: {done.stderr[-2000:]}")
    return found[0].removeprefix(word)


def line(row: Row) -> str:
    parts = " ".join(f"{name} {size:6.0f}" for name, size in row.parts.items())
    return (
        f"{row.model:18} {row.mode:9} {row.context:5} {row.backend:6} {parts}  "
        f"estimate {row.estimate:7.0f}  peak {row.peak:7.0f} MiB  {row.error:+6.1f} %"
    )


def _keep(rows: Sequence[Row]) -> None:
    values = [{**asdict(row), "error_percent": round(row.error, 1)} for row in rows]
    RESULTS.write_text(json.dumps(values, indent=1) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="words of a case's name")
    parser.add_argument("--folder", type=Path, help="where synthetic models are kept")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        rows = []
        for case in cases(folder):
            name = f"{case.title} {case.mode} {case.context} {case.backend}"
            if not all(word in name.split() for word in arguments.only):
                continue
            if case.model is not None:
                make(Path(case.model))
            rows.append(measure(case))
            print(line(rows[-1]), flush=True)
            if not arguments.only:
                _keep(rows)
    if not rows:
        raise SystemExit("no case has all these words in its name")
    worst = max(rows, key=lambda row: abs(row.error))
    print(f"{len(rows)} rows, the worst {worst.error:+.1f} %")
    if abs(worst.error) > LIMIT:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
