"""`llm-lite account`: what a step of a model would cost on an accelerator; no weight is read."""

from __future__ import annotations

import argparse
from collections import defaultdict

from llm_lite.cli.engine_words import engine_options
from llm_lite.cli.terminal.output import show, show_json, size_text
from llm_lite.core.errors import RequestError
from llm_lite.core.exec.accelerator import Accounting
from llm_lite.core.hub import catalog
from llm_lite.core.hub.fit.machine import this_machine
from llm_lite.core.loading import backends
from llm_lite.core.loading.fitting import Fitting, described
from llm_lite.core.loading.sources import open_source
from llm_lite.core.messages import StepAccount
from llm_lite.core.metrics.step_profile import UNREAD, account_of
from llm_lite.core.plan.plan import Program
from llm_lite.core.records import asdict, replace


def run(arguments: argparse.Namespace) -> int:
    options = engine_options(arguments)
    choice = backends.choose(options, None)
    found = choice.accelerator
    if not isinstance(found, Accounting):
        raise RequestError(
            f"--backend {options.backend}: expected an accelerator that gives an account, as uca"
        )
    source = open_source(catalog.resolve(arguments.model))
    try:
        # A source has room for as many positions as the cache.
        context = max(options.context, arguments.depth + arguments.tokens, UNREAD)
        asked = Fitting(described(source), choice, this_machine(None))
        program = asked.plan(replace(options, context=context)).program
    finally:
        source.close()
    account = _account(found, program, arguments)
    if arguments.json:
        facts = asdict(account) | {
            "seconds": account.seconds,
            "tokens_per_second": account.tokens_per_second,
        }
        del facts["translations"]
        show_json(facts)
    else:
        _print(account)
    return 0


def _account(found: Accounting, program: Program, arguments: argparse.Namespace) -> StepAccount:
    most = program.max_tokens
    if not 1 <= arguments.tokens <= most:
        raise RequestError(f"--tokens: expected 1 to {most}, found {arguments.tokens}")
    source = min(program.source, UNREAD)
    step = program.step([0] * arguments.tokens, arguments.depth, source=source)
    return account_of(found, program.plan_of(step), step, dict(arguments.set or ()))


def _print(account: StepAccount) -> None:
    ms = 1e3 * account.seconds
    show(
        f"{account.accelerator}: {account.tokens} tokens behind {account.depth}: {ms:.2f} ms, "
        f"{account.tokens_per_second:.2f} tokens/s, {account.joules / account.tokens:.3f} J a token"
    )
    for on in ("accelerator", "host"):
        share = account.seconds_on(on) / account.seconds if account.seconds else 0.0
        show(f"on the {on}: {1e3 * account.seconds_on(on):.2f} ms, {share:.1%}")
    show(
        f"multipliers {account.utilisation:.1%} busy and memory {account.memory_share:.1%} while "
        f"the accelerator runs"
    )
    groups = defaultdict[tuple[str, str], list[float]](lambda: [0.0, 0.0, 0.0, 0.0])
    for op in account.ops:
        row = groups[op.label.rpartition(".")[2] if op.name == "matmul" else op.name, op.waits_for]
        for at, value in enumerate((op.seconds, op.busy, op.moving, op.moved_bytes)):
            row[at] += value
    show("op              waits for      ms      busy    moving   moved")
    for (name, why), row in sorted(groups.items(), key=lambda item: -item[1][0])[:12]:
        times = "  ".join(f"{1e3 * value:8.2f}" for value in row[:3])
        show(f"{name:<15} {why:<11} {times}  {size_text(int(row[3]))}")
    for parameter in account.parameters:
        show(f"{parameter.name} = {parameter.value:g} {parameter.unit}".rstrip())
    for line in account.assumptions:
        show(line)
