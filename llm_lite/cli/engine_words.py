"""The words of commands that run a model and choose its answers, and the options that they are."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from llm_lite.cli.parser import DEVICE_HELP, at_least, backend
from llm_lite.cli.terminal.output import note
from llm_lite.core.errors import RequestError
from llm_lite.core.files.text_input import read_text
from llm_lite.core.messages import (
    ACTIVATIONS,
    BACKENDS,
    DRAFT_LEARNINGS,
    EXPERTS_IN,
    KV_TYPES,
    MODES,
    SPECULATES,
    EngineOptions,
    KvType,
    SamplingOptions,
    Speculate,
)
from llm_lite.core.messages.sampling_options import OPTIONS
from llm_lite.core.tools.kept_schema import left_in

LONGEST_GRAMMAR = 1 << 20  # bytes of a file; how much of it is taken, the grammar says
ADVISED = (
    "What is not said is as the model's own files advise (generation_config.json, general.sampling "
    "of a GGUF file), or the card of its family, or else as the program does it."
)
FORMS = ("auto", "chat", "completion")


def add_engine(engine: argparse._ArgumentGroup) -> None:
    engine.add_argument(
        "--backend",
        type=backend,
        default="auto",
        metavar=f"{{{','.join(BACKENDS)},NAME}}",
        help="the executor. auto, the default: Vulkan on a GPU, else cpu. cpu: the C++ kernels. "
        "numpy: the slow reference. NAME: one that an installed package adds, as `llm-lite doctor` "
        "lists them",
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
        type=at_least(0, minus_one=0),
        default=0,
        metavar="N",
        help="processor threads; 0: automatic",
    )
    engine.add_argument(
        "--ctx",
        type=at_least(0, minus_one=0),
        default=0,
        metavar="TOKENS",
        help="context size; 0: automatic",
    )
    engine.add_argument(
        "--experts",
        choices=EXPERTS_IN,
        default="auto",
        help="where the experts of a mixture are. memory: where the other weights are, which "
        "answers fastest. cpu: in the host's memory, computed in C++, beside a device that has "
        "all else. file: in C++ too, as they lie in a GGUF file: it opens at once, and memory "
        "holds what it has room for. auto, the default: the first of these that fits",
    )
    engine.add_argument(
        "--force", action="store_true", help="load the model even if it does not fit in memory"
    )


def add_speculation(engine: argparse._ArgumentGroup) -> None:
    """Add the words of commands that write answers one after the other."""
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
    """Add the words of a conversation in the terminal: it is stored nowhere, so by default nothing
    is learned from it."""
    engine.add_argument(
        "--learned-drafts",
        choices=DRAFT_LEARNINGS,
        default="use",
        help="also draft tokens from the model's answers in other conversations. off: no. use: "
        "from what the window learned and keeps on disk (the default). learn: also learn from "
        "these answers. `llm-lite drafts` lists and deletes what was learned",
    )


def engine_options(arguments: argparse.Namespace) -> EngineOptions:
    """Return the engine's options; commands without `--speculate` draft nothing."""
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
        experts=arguments.experts,
        force=arguments.force,
    )


def speculation(word: str) -> tuple[Speculate, str]:
    """Return how answers are drafted, and the model that drafts, "" if there is none."""
    known: dict[str, Speculate] = {name: name for name in SPECULATES}
    return (known[word], "") if word in known else ("auto", word)


def kv_types(text: str) -> tuple[KvType, KvType]:
    """Return the types of keys and of values; one word stands for both."""
    found = [kind for name in text.split(",") for kind in KV_TYPES if kind == name]
    if len(found) != text.count(",") + 1 or len(found) > 2:
        known = ", ".join(KV_TYPES)
        problem = f"expected one or two of {known}, with a comma between, found {text!r}"
        raise argparse.ArgumentTypeError(problem)
    return found[0], found[-1]


def add_form(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--form",
        choices=FORMS,
        default="auto",
        help="chat: questions and answers; completion: one text, which the model continues; auto: "
        "what the model is made for, which is completion where it has no chat template",
    )


def add_sampling(sampling: argparse._ArgumentGroup) -> None:
    form = sampling.add_mutually_exclusive_group()
    for row in OPTIONS.values():
        word, what = f"--{row.word}", phrase(row.help)
        match row.kind:
            case "number":
                sampling.add_argument(word, type=float, metavar="X", help=what)
            case "whole":
                whole = at_least(int(row.low), minus_one=-1 if row.least < row.low else None)
                sampling.add_argument(word, type=whole, metavar="N", help=what)
            case "flag":
                usual = "on" if row.default else "off"
                help_text = f"{what}; by default it is {usual}"
                sampling.add_argument(word, action=argparse.BooleanOptionalAction, help=help_text)
            case "texts":
                sampling.add_argument(
                    word.removesuffix("s"),
                    dest=row.name,
                    action="append",
                    metavar="TEXT",
                    help=f"{what}; may be repeated",
                )
            case "biases":
                sampling.add_argument(
                    word,
                    action="append",
                    type=bias_of,
                    metavar="ID=V",
                    help=f"{what}; may be repeated",
                )
            case "text":
                metavar = "FILE|TEXT" if row.name == "json_schema" else "FILE"
                form.add_argument(word, metavar=metavar, help=what)


def phrase(sentences: str) -> str:
    """Return a help text as the command line has them: without capital and last period."""
    return f"{sentences[0].lower()}{sentences[1:].removesuffix('.')}"


def given_sampling(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of `SamplingOptions` that were typed. RequestError and FileError for a
    schema or grammar that cannot be read."""
    typed = {name: getattr(arguments, name) for name in OPTIONS}
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else OPTIONS[name].meant(value)
        for name, value in typed.items()
        if value is not None
    }
    if "json_schema" in given:
        given["json_schema"] = schema_of(given["json_schema"])
    if "grammar" in given:
        given["grammar"] = read_text(Path(given["grammar"]), LONGEST_GRAMMAR)
    return given


def sampling_options(arguments: argparse.Namespace) -> SamplingOptions:
    """Return the typed options over the program's own defaults."""
    return SamplingOptions(**given_sampling(arguments))


def schema_of(word: str) -> str:
    """Return a JSON object as it was typed, or the content of a file; tell which of its keywords
    an answer is not held to."""
    is_object = word.lstrip().startswith("{")
    text = word if is_object else read_text(Path(word), LONGEST_GRAMMAR)
    if names := left_in(text):
        note(f"json-schema: these keywords are left to the model: {', '.join(names)}")
    return text


def bias_of(word: str) -> tuple[int, float]:
    token, is_pair, value = word.partition("=")
    try:
        if not is_pair or not token.isascii() or not token.isdecimal():
            raise ValueError
        return int(token), float(value)
    except ValueError:
        problem = f"expected a token id, = and a number, found {word[:40]!r}"
        raise argparse.ArgumentTypeError(problem) from None


def bias_from(word: str) -> tuple[int, float]:
    """Return a bias as `bias_of` does. RequestError for a conversation, in place of argparse's
    error."""
    try:
        return bias_of(word)
    except argparse.ArgumentTypeError as error:
        raise RequestError(f"/logit-bias: {error}") from None
