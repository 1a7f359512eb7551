"""The words of every command that runs a model, and the options that they are."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from llm_lite.core.messages import (
    ACTIVATIONS,
    BACKENDS,
    DRAFT_LEARNINGS,
    KV_TYPES,
    MODES,
    SPECULATES,
    EngineOptions,
    KvType,
    Speculate,
)


def add_engine(
    engine: argparse._ArgumentGroup, at_least: Callable[[int], Callable[[str], int]]
) -> None:
    engine.add_argument("--backend", choices=BACKENDS, default="auto")
    engine.add_argument("--device", type=at_least(0), metavar="N", help="see `llm-lite doctor`")
    engine.add_argument("--mode", choices=MODES, default="as-stored", help="how weights are kept")
    engine.add_argument("--activations", choices=ACTIVATIONS, default="auto")
    engine.add_argument(
        "--kv",
        type=kv_types,
        default=("fp16", "fp16"),
        metavar="TYPE[,TYPE]",
        help=f"the cache's type, or those of keys and values: {', '.join(KV_TYPES)}",
    )
    engine.add_argument("--threads", type=at_least(0), default=0, metavar="N")
    engine.add_argument("--ctx", type=at_least(0), default=0, metavar="TOKENS", help="context size")
    engine.add_argument(
        "--force", action="store_true", help="load the model even if memory will not do"
    )


def add_speculation(engine: argparse._ArgumentGroup) -> None:
    """Of the commands that write answers one after the other."""
    engine.add_argument(
        "--speculate",
        default="auto",
        metavar=f"{{{','.join(SPECULATES)},MODEL}}",
        help="draft tokens from what the text said before, and verify several in one pass over the "
        "weights: never, where it is faster, or always (lookup); or as auto, and where nothing "
        "repeats with a slice of Gemma 3n E4B's own weights, or with a smaller model of the same "
        "vocabulary (a path or name); answers are the same",
    )


def add_learned_drafts(engine: argparse._ArgumentGroup) -> None:
    """Of a conversation in the terminal, which is kept nowhere: nor is what it could teach."""
    engine.add_argument(
        "--learned-drafts",
        choices=DRAFT_LEARNINGS,
        default="use",
        help="draft tokens from what the model answered in other conversations too: not at all, "
        "from what was learned in the window (use), or also learn from these answers, in a file on "
        "disk; `llm-lite drafts` lists and deletes what was learned",
    )


def engine_options(arguments: argparse.Namespace) -> EngineOptions:
    """Commands without `--speculate` draft nothing."""
    speculate, draft_model = speculation(getattr(arguments, "speculate", "off"))
    return EngineOptions(
        backend=arguments.backend,
        device=arguments.device,
        mode=arguments.mode,
        activations=arguments.activations,
        keys=arguments.kv[0],
        values=arguments.kv[1],
        threads=arguments.threads,
        context=arguments.ctx,
        speculate=speculate,
        draft_model=draft_model,
        learned_drafts=getattr(arguments, "learned_drafts", "off"),
        force=arguments.force,
    )


def speculation(word: str) -> tuple[Speculate, str]:
    """How answers are drafted, and the model that drafts, "" where there is none."""
    known: dict[str, Speculate] = {name: name for name in SPECULATES}
    return (known[word], "") if word in known else ("auto", word)


def kv_types(text: str) -> tuple[KvType, KvType]:
    """Of keys and values; one stands for both."""
    found = [kind for name in text.split(",") for kind in KV_TYPES if kind == name]
    if len(found) != text.count(",") + 1 or len(found) > 2:
        known = ", ".join(KV_TYPES)
        problem = f"expected one or two of {known}, with a comma between, found {text!r}"
        raise argparse.ArgumentTypeError(problem)
    return found[0], found[-1]
