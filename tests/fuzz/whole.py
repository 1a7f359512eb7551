"""A model from its file to a few tokens, as the program goes, for doors of model files."""

from __future__ import annotations

import contextlib
import io
import random
from importlib import import_module
from pathlib import Path

import numpy as np

from llm_lite.cli import main
from llm_lite.core.errors import RequestError
from llm_lite.core.generation.steps import generate
from llm_lite.core.generation.token_choice import sum_exp
from llm_lite.core.loading import loader
from llm_lite.core.messages import EngineOptions, SamplingOptions
from llm_lite.core.records import replace
from tests.fuzz.door import Result
from tests.make_gguf import TinyLlama

CONTEXT = 48
PROMPT = [1, 70, 71, 72, 73]
EXACT = EngineOptions(backend="cpu", context=CONTEXT, threads=1, query_budget=1 << 16)
GREEDY = SamplingOptions(temperature=0.0, max_new_tokens=3, seed=1)
TINY = TinyLlama(layers=2, width=32, heads=2, kv_heads=1, ffn=64, vocab=264, context=64)


def prepare() -> None:
    """Import and start what a case would otherwise pay for."""
    for name in (
        "llm_lite.core.exec.cpu.executor",
        "llm_lite.core.exec.reference",
        "llm_lite.cli.commands.logits",
    ):
        import_module(name)
    sum_exp(np.zeros(2, np.float32))


def run(path: Path, rng: random.Random) -> Result:
    """Open, build, generate three tokens; on either executor, in either way a person may."""
    if rng.random() < 0.25:
        return logits_command(path, rng)
    warnings: list[str] = []
    backend = rng.choice(("cpu", "cpu", "numpy"))
    mode = rng.choice(("as-stored", "as-stored", "int4", "fp32"))
    file = loader.open_model(str(path), lambda *_: None, warnings.append)
    try:
        options = replace(EXACT, backend=backend, mode=mode)
        runner = loader.start(file, options, None, lambda *_: None)
        try:
            session, tokenizer = runner.session, file.tokenizer
            known = [t % tokenizer.vocab_size for t in PROMPT]
            chosen = list(generate(session, known, GREEDY, frozenset()))
            tokenizer.decode([choice.token for choice in chosen])
            return Result([[choice.probability for choice in chosen]], bool(warnings))
        finally:
            runner.close()
    finally:
        file.close()


def logits_command(path: Path, rng: random.Random) -> Result:
    """`llm-lite logits`: what it writes must be numbers unless it says otherwise."""
    out = path.parent / "logits.npy"
    backend = rng.choice(("cpu", "numpy"))
    words = ["logits", str(path), "--text", "the end", "--backend", backend, "--threads", "1"]
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = main.main([*words, "--ctx", "32", "--out", str(out)])
    if code:
        raise RequestError(said.getvalue().strip().split("\n")[-1])
    told = [line for line in said.getvalue().splitlines() if "multiplied as" not in line]
    return Result([np.load(out)], bool(told))
