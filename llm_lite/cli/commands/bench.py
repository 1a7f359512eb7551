"""`llm-lite bench`: prompt and decode speed, beside the memory's own."""

from __future__ import annotations

import argparse

from llm_lite.cli.engine_words import engine_options
from llm_lite.cli.terminal.inputs import executor_fields
from llm_lite.cli.terminal.output import say, show, show_json, tell, warn
from llm_lite.core.loading import loader
from llm_lite.core.loading.runner import Runner
from llm_lite.core.metrics.bench import TURN_TOKENS, BenchResult, bench
from llm_lite.core.metrics.pass_costs import PassCost, drafting_ms, pass_costs
from llm_lite.core.records import asdict

CONVERSATION = 2000  # tokens


def run(arguments: argparse.Namespace) -> int:
    file = loader.open_model(arguments.model, lambda *_: None, warn)
    try:
        runner = loader.start(file, engine_options(arguments), None, lambda *_: None)
        try:
            tell(runner.note)
            runner.report_drafts(tell)
            result = _benched(runner, arguments)
            curve = _curve(runner, arguments) if arguments.curve else ()
            drafting = drafting_ms(runner)
        finally:
            runner.close()
    finally:
        file.close()
    info = runner.executor_info
    report = {
        "model": runner.model_info.name,
        **executor_fields(info),
        "threads": info.threads,
        "prompt_tokens": arguments.prompt_tokens,
        "new_tokens": arguments.new_tokens,
        "depth": arguments.depth,
        "weight_bytes": runner.model_info.weight_bytes,
        **asdict(result),
    }
    if result.reuse:
        report["reuse"]["ratio"] = result.reuse.ratio
    if arguments.curve:
        report["passes"] = [asdict(cost) for cost in curve]
    if info.draft is not None:
        report["draft_model"] = {**asdict(info.draft), "ms_per_token": drafting}
    if arguments.json:
        show_json(report)
        return 0
    show(f"{report['model']} on {info.device} ({info.backend}, {info.mode}, {info.activations})")
    for name, spread in (("prefill", result.prefill_tok_s), ("decode", result.decode_tok_s)):
        show(f"  {name:8} {spread.median:8.1f} tok/s   ({spread.min:.1f} to {spread.max:.1f})")
    show(
        f"  memory   {result.read_gb_s_measured:8.1f} GB/s    "
        f"decode uses {100 * result.bandwidth_share:.0f} % of it"
    )
    if reuse := result.reuse:
        show(
            f"  reuse    {reuse.ratio:8.1f} x       {reuse.conversation_tokens} tokens on, a turn "
            f"starts in {reuse.reused_ms:.0f} ms, read again in {reuse.fresh_ms:.0f} ms"
        )
    if info.draft is not None:
        show(f"  drafts   {drafting:8.2f} ms a token, by {info.draft.name} in {info.draft.mode}")
    for cost in curve:
        pays = f"   drafts pay where {100 * cost.break_even:.0f} % are right"
        times = f"{cost.ms.median:8.2f} ms    {cost.ratio:5.2f} x"
        show(f"  T({cost.tokens})".ljust(11) + times + (pays if cost.tokens > 1 else ""))
    return 0


def _benched(runner: Runner, arguments: argparse.Namespace) -> BenchResult:
    return bench(
        runner,
        prompt_tokens=arguments.prompt_tokens,
        new_tokens=arguments.new_tokens,
        depth=arguments.depth,
        repeat=arguments.repeat,
        conversation=_conversation(arguments.conversation, runner),
        progress=lambda n: say(f"run {n} of {arguments.repeat}"),
    )


def _curve(runner: Runner, arguments: argparse.Namespace) -> tuple[PassCost, ...]:
    """At least five passes of each size: they are short."""
    return pass_costs(runner, depth=arguments.depth, repeat=max(5, arguments.repeat))


def _conversation(asked: int | None, runner: Runner) -> int:
    """Return the tokens of the measured conversation: by default 2000 if that takes seconds, and 0
    if it would take minutes."""
    if asked is not None:
        return asked
    device = runner.choice.device
    slow = runner.choice.backend == "numpy" or (device and device.info.kind == "software")
    return 0 if slow else max(0, min(CONVERSATION, runner.session.context - TURN_TOKENS))
