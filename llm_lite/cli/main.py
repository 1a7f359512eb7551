"""The command line: what `llm-lite` understands, and one sentence for whatever goes wrong."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path

from llm_lite.cli.commands.models import add_actions
from llm_lite.cli.engine_words import (
    ADVISED,
    add_engine,
    add_form,
    add_learned_drafts,
    add_sampling,
    add_speculation,
    kv_types,
)
from llm_lite.cli.parser import (
    DEVICE_HELP,
    Commands,
    Parser,
    Subparsers,
    at_least,
    mistyped,
    parameter,
)
from llm_lite.cli.serving_words import add_serving
from llm_lite.cli.terminal import endings, interrupts, output
from llm_lite.cli.terminal.interrupts import ends_in_order
from llm_lite.core.assets import program_version
from llm_lite.core.errors import DoesNotFitError, OutOfMemoryError
from llm_lite.core.messages import MODES, OVERFLOWS
from llm_lite.core.text.sandbox.process import sandbox

_TRANSLATING = (
    ("translate", "translate a text with an encoder-decoder such as Marian"),
    ("generate", "answer a text with an encoder-decoder such as T5"),
)

# Command -> the module whose `run(arguments) -> exit code` carries it out, imported when used.
_COMMANDS = {
    "desktop": "llm_lite.cli.commands.desktop",
    "chat": "llm_lite.cli.commands.chat",
    "serve": "llm_lite.cli.commands.serve",
    "embed": "llm_lite.cli.commands.embed",
    "fill": "llm_lite.cli.commands.fill",
    "translate": "llm_lite.cli.commands.translate",
    "generate": "llm_lite.cli.commands.translate",
    "logits": "llm_lite.cli.commands.logits",
    "ask": "llm_lite.cli.commands.ask",
    "sites": "llm_lite.cli.commands.sites",
    "attention": "llm_lite.cli.commands.attention",
    "tokenize": "llm_lite.cli.commands.tokenize",
    "bench": "llm_lite.cli.commands.bench",
    "kernels": "llm_lite.cli.commands.kernels",
    "conformance": "llm_lite.cli.commands.conformance",
    "account": "llm_lite.cli.commands.account",
    "slice": "llm_lite.cli.commands.slicing",
    "synth": "llm_lite.cli.commands.synth",
    "perplexity": "llm_lite.cli.commands.perplexity",
    "models": "llm_lite.cli.commands.models",
    "doctor": "llm_lite.cli.commands.doctor",
    "drafts": "llm_lite.cli.commands.drafts",
    "quantize": "llm_lite.cli.commands.quantize",
    "verify": "llm_lite.cli.commands.verify",
}
MODEL = "a GGUF file, a Hugging Face directory, a variant, or a name (`llm-lite models list`)"
INTERRUPTED = interrupts.CODE


@ends_in_order
def main(
    argv: Sequence[str] | None = None, *, imported: Callable[[], object] = lambda: None
) -> int:
    """Run a command; its exit code, as `llm_lite.cli.terminal.endings` decides it.

    `imported` is called when the command's modules are there, before it runs.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    output.prepare()
    return endings.ended(lambda: _run(words, imported))


def _run(words: list[str], imported: Callable[[], object]) -> int:
    parser = _parser()
    for word in takewhile(lambda word: word != "--", words):  # options end there
        if word.startswith("--") and word.endswith("=--"):  # argparse makes an empty list of it
            parser.error(f"argument {word[:-3]}: expected a value, found '--'")
    arguments = parser.parse_args(_with_command(words, parser))
    if hasattr(arguments, "backend"):  # a model will be loaded: it starts while we import
        sandbox().warm()
    command = importlib.import_module(_COMMANDS[arguments.command])
    imported()
    try:
        return int(command.run(arguments))
    except DoesNotFitError as error:
        if not hasattr(arguments, "backend"):
            raise
        raise OutOfMemoryError(f"{error}; --force loads it all the same") from None


def _with_command(words: list[str], parser: Parser) -> list[str]:
    """Insert `desktop` where no command is named: `llm-lite` and `llm-lite FILE` open the
    window."""
    if words and (words[0] in _COMMANDS or words[0] in ("-h", "--help", "--version")):
        return words
    problem = mistyped(words[0], _COMMANDS) if words else ""
    if problem:
        parser.error(problem)
    return ["desktop", *words]


def _parser() -> Parser:
    parser = Parser(
        prog="llm-lite",
        description="Run a language model on your own machine and see inside it while it talks.",
        epilog="Without a command, the desktop opens. MODEL is the path of a GGUF file or of a "
        "Hugging Face directory, hf:OWNER/NAME[:FILE], or a name or unique part of one that "
        "`llm-lite models list` shows; without one, smollm2-135m-instruct.",
    )
    parser.add_argument("--version", action="version", version=f"llm-lite {program_version()}")
    commands = parser.add_subparsers(
        action=Commands, dest="command", required=True, metavar="COMMAND"
    )
    engine = _engine_parent()
    speculating = [engine, _speculation_parent()]
    answering = [*speculating, _sampling_parent()]

    desktop = commands.add_parser("desktop", parents=answering, help="open the window")
    desktop.add_argument("model", nargs="?", metavar="MODEL", help=MODEL)
    _chat(commands, answering)
    add_serving(
        commands.add_parser(
            "serve",
            parents=speculating,
            help="answer other programs through OpenAI's protocol, and a page in the browser",
        )
    )
    _embedding(
        commands.add_parser(
            "embed", parents=[engine], help="turn texts into vectors, and compare them"
        )
    )
    _filling(
        commands.add_parser("fill", parents=[engine], help="predict the masked tokens of a text")
    )
    for name, what in _TRANSLATING:
        _translating(commands.add_parser(name, parents=[engine], help=what))
    _instruments(commands)
    _questions(commands)
    _tokenize(commands)
    _bench(commands, speculating)
    study = "measure five implementations of one matrix product against the limits of this machine"
    _kernels(commands.add_parser("kernels", help=study))
    _slice(commands)
    _synth(commands)
    _perplexity(commands)
    _quantize(commands)
    _machine(commands, engine)
    return parser


def _chat(commands: Subparsers, answering: list[Parser]) -> None:
    chat = commands.add_parser("chat", parents=answering, help="chat in the terminal")
    chat.add_argument("model", nargs="?", metavar="MODEL", help=MODEL)
    chat.add_argument(
        "-p",
        "--prompt",
        metavar="TEXT",
        help="answer this and end; without it, a conversation begins",
    )
    chat.add_argument("--system", metavar="TEXT", help="the system prompt")
    chat.add_argument(
        "--connect",
        metavar="URL",
        help="ask a server with OpenAI's protocol: vLLM, llama-server, LM Studio, llm-lite",
    )
    chat.add_argument(
        "--model", dest="remote_model", metavar="NAME", help="name of a model on that server"
    )
    chat.add_argument(
        "--api-key",
        metavar="K",
        help="key of that server; by default LLM_LITE_API_KEY of the environment",
    )
    add_learned_drafts(chat.add_argument_group("learned drafts"))
    chat.add_argument("--raw", action="store_true", help="send the text without the chat template")
    add_form(chat)
    chat.add_argument("--json", action="store_true", help="one JSON object instead of a stream")
    chat.add_argument(
        "--no-thinking",
        action="store_true",
        help="turn thinking off, where the chat template has a switch for it",
    )
    chat.add_argument(
        "--effort",
        metavar="LEVEL",
        help="how much the model thinks, where its chat template takes it: low, medium, high",
    )
    chat.add_argument(
        "--template-value",
        metavar="NAME=VALUE",
        action="append",
        help="set another variable of the chat template, to JSON or a text; may be repeated",
    )
    chat.add_argument(
        "--interventions",
        type=Path,
        metavar="FILE",
        help="scale heads and experts, and shift what layers leave, as a JSON file says: "
        "docs/questions.md",
    )
    chat.add_argument(
        "--overflow",
        choices=OVERFLOWS,
        help="what happens when the context is full; by default a conversation forgets its middle, "
        "and with -p the answer stops",
    )


def _embedding(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an encoder, or any other model")
    parser.add_argument(
        "-p",
        "--prompt",
        action="append",
        metavar="TEXT",
        help="a text; may be repeated; without it, each line of standard input is a text",
    )
    parser.add_argument(
        "--task",
        default="",
        metavar="NAME",
        help="puts the model's prompt for a task before each text, such as query or document",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="the vectors as one JSON object, instead of similarities",
    )


def _filling(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an encoder with a masked-token head")
    parser.add_argument(
        "text",
        metavar="TEXT",
        help='a text with the model\'s mask, such as "Paris is the [MASK] of France."',
    )
    parser.add_argument(
        "--top", type=int, default=5, metavar="N", help="candidates for each mask; by default 5"
    )
    parser.add_argument("--json", action="store_true")


def _translating(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument(
        "text", nargs="?", metavar="TEXT", help="without it, each line of standard input is a text"
    )
    parser.add_argument(
        "--beam",
        type=at_least(1),
        default=0,
        metavar="N",
        help="width of the beam; 1: greedy decoding; by default as the model's file says",
    )
    parser.add_argument(
        "--max-tokens",
        type=at_least(1, minus_one=0),
        default=0,
        metavar="N",
        help="longest target, in tokens",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object for each text")


def _tokenize(commands: Subparsers) -> None:
    parser = commands.add_parser("tokenize", help="show how a text becomes tokens")
    parser.add_argument("model", metavar="MODEL", help="a model, or the path of a tokenizer.json")
    parser.add_argument("text", nargs="?", metavar="TEXT")
    parser.add_argument(
        "--text-file", type=Path, metavar="F", help="read the text from this file, in UTF-8"
    )
    parser.add_argument(
        "--steps", action="store_true", help="show every merge, lattice or look-up of each word"
    )
    parser.add_argument(
        "--control",
        action="store_true",
        help="read names of control tokens in the text as control tokens",
    )
    parser.add_argument(
        "--chat",
        action="store_true",
        help="put the text into the model's chat template, as a message",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")


def _bench(commands: Subparsers, speculating: list[Parser]) -> None:
    bench = commands.add_parser("bench", parents=speculating, help="measure speed")
    bench.add_argument("model", nargs="?", metavar="MODEL", help=MODEL)
    bench.add_argument("--prompt-tokens", type=int, default=512, metavar="N", help="512 by default")
    bench.add_argument("--new-tokens", type=int, default=128, metavar="N", help="128 by default")
    bench.add_argument(
        "--depth", type=int, default=0, metavar="N", help="tokens already in the cache"
    )
    bench.add_argument("--repeat", type=int, default=3, metavar="N", help="runs, 3 by default")
    bench.add_argument(
        "--conversation",
        type=int,
        metavar="TOKENS",
        help="tokens of the conversation in which reuse of the cache is measured; 0: not measured; "
        "by default 2000",
    )
    bench.add_argument(
        "--curve",
        action="store_true",
        help="also measure passes over several tokens, as speculative decoding verifies drafts",
    )
    bench.add_argument("--json", action="store_true")


def _kernels(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on",
        choices=("vulkan", "cpu", "both"),
        default="both",
        help="measure shaders, C++ kernels or both (the default)",
    )
    parser.add_argument(
        "--device",
        type=at_least(0),
        metavar="N",
        help=DEVICE_HELP,
    )
    parser.add_argument(
        "--threads", type=at_least(0), default=0, metavar="N", help="threads of the C++ kernels"
    )
    parser.add_argument(
        "--size",
        type=at_least(0),
        default=0,
        metavar="N",
        help="rows and columns of the matrices; 0: chosen so that a measurement takes seconds",
    )
    parser.add_argument("--json", action="store_true")


def _slice(commands: Subparsers) -> None:
    cut = commands.add_parser("slice", help="cut a smaller Gemma 3n out of a larger one")
    cut.add_argument("source", metavar="SRC", help="a Hugging Face directory, a variant or a name")
    cut.add_argument("target", type=Path, metavar="DST", help="the directory to write")
    cut.add_argument(
        "--config", required=True, metavar="E2B|NAME|FILE", help="which layers and widths to keep"
    )
    cut.add_argument("--view", action="store_true", help="use SRC's files instead of copying them")


def _synth(commands: Subparsers) -> None:
    synth = commands.add_parser(
        "synth", help="write a model with a real model's shapes and random weights, for benchmarks"
    )
    shapes = (
        "gemma-3n-e4b|gemma-3n-e2b|gemma-4-e4b|smollm2-135m|llama-1b|llama-3b|llama-8b|"
        "qwen3.5-0.8b|qwen3.5-4b|qwen3-30b-a3b|gpt-oss-20b|olmoe-1b-7b|lfm2-1.2b"
    )
    synth.add_argument("name", metavar=shapes)
    synth.add_argument("target", type=Path, metavar="DST", help="the directory or file to write")
    synth.add_argument("--mode", metavar="int4|int8|fp16|fp32", help="by default int4")
    synth.add_argument(
        "--format",
        choices=["variant", "gguf"],
        default="variant",
        help="by default variant; GGUF files have Q4_0 weights, gpt-oss MXFP4 experts",
    )
    synth.add_argument("--seed", type=at_least(0), default=0)


def _machine(commands: Subparsers, engine: Parser) -> None:
    verify = commands.add_parser("verify", help="check a model's files for damage")
    verify.add_argument("model", nargs="?", metavar="MODEL", help=MODEL)
    verify.add_argument("--json", action="store_true")

    add_actions(commands.add_parser("models", help="find, add and remove models"))

    drafts = commands.add_parser(
        "drafts", help="list what drafting learned from answers, or delete it"
    )
    drafts.add_argument(
        "--delete", action="store_true", help="delete all that was learned, for all models"
    )
    drafts.add_argument("--json", action="store_true")

    account = commands.add_parser(
        "account",
        parents=[engine],
        help="estimate what a step costs on an accelerator such as uca; no weight is read",
    )
    account.add_argument("model", nargs="?", metavar="MODEL", help=MODEL)
    account.add_argument("--tokens", type=at_least(1), default=1, metavar="N", help="of the step")
    account.add_argument(
        "--depth", type=at_least(0), default=0, metavar="N", help="tokens already in the cache"
    )
    account.add_argument(
        "--set",
        type=parameter,
        action="append",
        metavar="NAME=VALUE",
        help="another size or rate of the accelerator, as it lists them; may be repeated",
    )
    account.add_argument("--json", action="store_true")

    conformance = commands.add_parser(
        "conformance", help="check an executor that an installed package adds"
    )
    conformance.add_argument("name", metavar="NAME", help="as `llm-lite doctor` lists it")
    conformance.add_argument("--verbose", action="store_true", help="name each case as it is run")
    conformance.add_argument("--json", action="store_true")

    doctor = commands.add_parser(
        "doctor", parents=[engine], help="show the devices and features of this machine"
    )
    doctor.add_argument("--json", action="store_true")
    doctor.add_argument(
        "--benchmark-modes",
        action="store_true",
        help="measure every weight mode on this machine, and recommend one",
    )
    doctor.add_argument("--model", metavar="MODEL", help="model for --benchmark-modes")


def _instruments(commands: Subparsers) -> None:
    """Add the commands that write to files what a model computes."""
    logits = _instrument(
        commands, "logits", "write the logits after every token of a text", "X.npy"
    )
    logits.add_argument(
        "--decoder-tokens",
        metavar="0,1,2",
        help="tokens of the target, for an encoder-decoder; its source is the text",
    )
    attention = _instrument(
        commands,
        "attention",
        "write the attention probabilities of every head over a text",
        "X.npz",
    )
    attention.add_argument("--layers", metavar="0,3-5", help="all by default")
    attention.add_argument("--heads", metavar="0,3-5", help="all by default")


def _questions(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "ask",
        parents=[_engine_parent()],
        help="ask something about a text: what layers compute, which experts are chosen, and more",
    )
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    parser.add_argument("question", metavar="QUESTION", help="by its name: see docs/questions.md")
    parser.add_argument(
        "parameters", metavar="NAME=VALUE", nargs="*", help="parameters of the question"
    )
    _text_of(parser)
    parser.add_argument(
        "--target",
        metavar="T",
        help="of an encoder-decoder, the target so far; its source is the text",
    )
    parser.add_argument("--out", type=Path, metavar="X.npz", help="write arrays; else JSON")
    sites = commands.add_parser(
        "sites",
        parents=[_engine_parent()],
        help="list the places of a model that can be read, with their shapes",
    )
    sites.add_argument("model", metavar="MODEL", help=MODEL)
    sites.add_argument("--json", action="store_true")


def _text_of(parser: Parser) -> None:
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--text", metavar="T")
    given.add_argument("--text-file", type=Path, metavar="F")
    given.add_argument("--tokens", metavar="1,2,3")


def _instrument(commands: Subparsers, name: str, what: str, out: str) -> Parser:
    """Add a command that runs a model exactly over a text and writes an array."""
    # set_defaults below changes the parent's own actions, hence a parent of its own.
    parser = commands.add_parser(
        name, parents=[_engine_parent()], help=f"{what}; activations and KV cache in float32"
    )
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    _text_of(parser)
    parser.add_argument("--out", type=Path, required=True, metavar=out)
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(kv=("fp32", "fp32"), activations="a32")
    return parser


def _perplexity(commands: Subparsers) -> None:
    what = "measure the perplexity of a text, and the divergence from another weight mode"
    parser = commands.add_parser("perplexity", parents=[_engine_parent()], help=what)
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    parser.add_argument("--file", type=Path, required=True, metavar="F", help="a text, UTF-8")
    parser.add_argument("--reference-mode", choices=MODES, default="fp32")
    parser.add_argument(
        "--reference", metavar="MODEL", help="model of the reference; by default MODEL"
    )
    parser.add_argument(
        "--reference-kv",
        type=kv_types,
        metavar="TYPE[,TYPE]",
        help="type of the reference's KV cache; by default that of --kv",
    )
    parser.add_argument(
        "--chunks",
        type=at_least(0, minus_one=0),
        default=0,
        metavar="N",
        help="at most N; 0: all",
    )
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(kv=("fp32", "fp32"), activations="a32", ctx=512)


def _quantize(commands: Subparsers) -> None:
    what = "write a model in another weight mode, as a directory that is mapped when loaded"
    parser = commands.add_parser("quantize", help=what)
    parser.add_argument("source", metavar="SRC", help="a GGUF file, a directory or a known name")
    parser.add_argument("destination", metavar="DST", help="the directory to write")
    parser.add_argument("--mode", required=True, metavar="int4|int8|fp16|fp32")
    parser.add_argument(
        "--calibrate",
        metavar="FILE|self",
        help="calibrate with this text; self: with a text that the model writes",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing variant")
    parser.add_argument("--threads", type=at_least(0), default=0, metavar="N")
    parser.add_argument("--json", action="store_true", help="the report as one JSON object")


def _engine_parent() -> Parser:
    """Return the options of every command that runs a model."""
    parent = Parser(add_help=False)
    add_engine(parent.add_argument_group("engine"))
    return parent


def _speculation_parent() -> Parser:
    parent = Parser(add_help=False)
    add_speculation(parent.add_argument_group("speculation"))
    return parent


def _sampling_parent() -> Parser:
    """Return the options of commands that write answers."""
    parent = Parser(add_help=False)
    add_sampling(parent.add_argument_group("sampling", ADVISED))
    return parent
