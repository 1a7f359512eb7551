"""The words of every command that runs a model, and the options that they are."""

from __future__ import annotations

import argparse

from llm_lite.cli.parser import DEVICE_HELP, at_least
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


def add_engine(engine: argparse._ArgumentGroup) -> None:
    engine.add_argument(
        "--backend",
        choices=BACKENDS,
        default="auto",
        help="the executor. auto, the default: Vulkan on a GPU, else cpu. cpu: the C++ kernels. "
        "numpy: the slow reference",
    )
    engine.add_argument(
        "--device",
        type=at_least(0),
        metavar="N",
        help=DEVICE_HELP,
    )
    engine.add_argument("--mode", choices=MODES, default="as-stored", help="weight mode")
    engine.add_argument(
        "--activations",
        choices=ACTIVATIONS,
        default="auto",
        help="type of activations in matrix products: a32 is float32, a8 blocks of int8",
    )
    engine.add_argument(
        "--kv",
        type=kv_types,
        default=("fp16", "fp16"),
        metavar="TYPE[,TYPE]",
        help=f"type of the KV cache, or of keys and of values: {', '.join(KV_TYPES)}",
    )
    engine.add_argument(
        "--threads",
        type=at_least(0),
        default=0,
        metavar="N",
        help="processor threads; 0: automatic",
    )
    engine.add_argument(
        "--ctx", type=at_least(0), default=0, metavar="TOKENS", help="context size; 0: automatic"
    )
    engine.add_argument(
        "--force", action="store_true", help="load the model even if it does not fit in memory"
    )


def add_speculation(engine: argparse._ArgumentGroup) -> None:
    """Of the commands that write answers one after the other."""
    engine.add_argument(
        "--speculate",
        default="auto",
        metavar=f"{{{','.join(SPECULATES)},MODEL}}",
        help="speculative decoding: draft tokens, then verify several in one pass; answers stay "
        "the same. off: never. lookup: draft what followed the same words earlier in the text. "
        "auto: lookup where it is faster (the default). slice: auto, and also draft with a slice "
        "of Gemma 3n E4B's own weights. MODEL: auto, and also draft with this smaller model of "
        "the same vocabulary, a path or a name",
    )


def add_learned_drafts(engine: argparse._ArgumentGroup) -> None:
    """Of a conversation in the terminal, which is kept nowhere: nor is what it could teach."""
    engine.add_argument(
        "--learned-drafts",
        choices=DRAFT_LEARNINGS,
        default="use",
        help="also draft tokens from the model's answers in other conversations. off: no. use: "
        "from what the window learned and keeps on disk (the default). learn: also learn from "
        "these answers. `llm-lite drafts` lists and deletes what was learned",
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
