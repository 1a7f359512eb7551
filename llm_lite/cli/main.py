"""The command line: what `llm-lite` understands, and one sentence for whatever goes wrong."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from llm_lite.cli.encoder_words import add_embedding, add_filling
from llm_lite.cli.engine_words import add_engine, add_learned_drafts, add_speculation, kv_types
from llm_lite.cli.kernels_words import add_kernels
from llm_lite.cli.library_words import add_actions
from llm_lite.cli.sampling_words import add_sampling
from llm_lite.cli.serving_words import add_serving
from llm_lite.cli.terminal import endings, interrupts, streams
from llm_lite.cli.terminal.signals import ends_in_order
from llm_lite.cli.translating_words import TRANSLATING, add_translating
from llm_lite.core.errors import DoesNotFitError, OutOfMemoryError
from llm_lite.core.messages import MODES, OVERFLOWS
from llm_lite.core.plain_text import one_line
from llm_lite.core.text.sandbox.process import sandbox

# Command -> the module whose `run(arguments) -> exit code` carries it out, imported when used.
_COMMANDS = {
    "desktop": "llm_lite.cli.commands.desktop",
    "tour": "llm_lite.cli.commands.tour",
    "chat": "llm_lite.cli.commands.chat",
    "serve": "llm_lite.cli.commands.serve",
    "embed": "llm_lite.cli.commands.encoders.embed",
    "fill": "llm_lite.cli.commands.encoders.fill",
    "translate": "llm_lite.cli.commands.encoders.translate",
    "generate": "llm_lite.cli.commands.encoders.translate",
    "logits": "llm_lite.cli.commands.logits",
    "attention": "llm_lite.cli.commands.attention",
    "tokenize": "llm_lite.cli.commands.text.tokenize",
    "bench": "llm_lite.cli.commands.measuring.bench",
    "kernels": "llm_lite.cli.commands.measuring.kernels",
    "slice": "llm_lite.cli.commands.slicing",
    "synth": "llm_lite.cli.commands.synth",
    "perplexity": "llm_lite.cli.commands.measuring.perplexity",
    "models": "llm_lite.cli.commands.models",
    "doctor": "llm_lite.cli.commands.doctor",
    "drafts": "llm_lite.cli.commands.drafts",
    "quantize": "llm_lite.cli.commands.quantize",
    "verify": "llm_lite.cli.commands.verify",
}
_LONGEST_ERROR = 400  # characters
INTERRUPTED = interrupts.CODE


@ends_in_order
def main(
    argv: Sequence[str] | None = None, *, imported: Callable[[], object] = lambda: None
) -> int:
    """Run a command; its exit code, as `llm_lite.cli.terminal.endings` decides it.

    `imported` is called when the command's modules are there, before it runs.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    streams.prepare()
    return endings.ended(lambda: _run(words, imported))


def _run(words: list[str], imported: Callable[[], object]) -> int:
    parser = _parser()
    for word in takewhile(lambda word: word != "--", words):  # options end there
        if word.startswith("--") and word.endswith("=--"):  # argparse makes an empty list of it
            parser.error(f"argument {word[:-3]}: expected a value, found '--'")
    arguments = parser.parse_args(_with_command(words))
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


if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction["_Parser"]


class _Parser(argparse.ArgumentParser):
    """Its errors quote what was typed."""

    def error(self, message: str) -> NoReturn:
        super().error(one_line(message[:_LONGEST_ERROR]))


def _with_command(words: list[str]) -> list[str]:
    """`llm-lite` and `llm-lite FILE` open the desktop."""
    if words and (words[0] in _COMMANDS or words[0] in ("-h", "--help", "--version")):
        return words
    return ["desktop", *words]


def _parser() -> _Parser:
    parser = _Parser(
        prog="llm-lite",
        description="Run a language model on your own machine and see inside it while it talks.",
        epilog="Without a command, the desktop opens. MODEL is the path of a GGUF file or of a "
        "Hugging Face directory, hf:OWNER/NAME[:FILE], or a name or unique part of one that "
        "`llm-lite models list` shows; without one, smollm2-135m-instruct.",
    )
    parser.add_argument("--version", action="version", version=f"llm-lite {_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    engine = _engine_parent()
    speculating = [engine, _speculation_parent()]
    answering = [*speculating, _sampling_parent()]

    _window(commands, answering)
    _chat(commands, answering)
    add_serving(
        commands.add_parser("serve", parents=speculating, help="serve other programs, by HTTP")
    )
    add_embedding(commands.add_parser("embed", parents=[engine], help="vectors of texts"))
    add_filling(
        commands.add_parser("fill", parents=[engine], help="what masked tokens of a text could be")
    )
    for name, what in TRANSLATING:
        add_translating(commands.add_parser(name, parents=[engine], help=what), _at_least)
    logits = _instrument(commands, "logits", "logits after every token of a text", "X.npy")
    logits.add_argument(
        "--decoder-tokens", metavar="0,1,2", help="of an encoder-decoder, whose source is the text"
    )
    attention = _instrument(
        commands, "attention", "attention probabilities of every head over a text", "X.npz"
    )
    attention.add_argument("--layers", metavar="0,3-5", help="without it, all")
    attention.add_argument("--heads", metavar="0,3-5", help="without it, all")
    _tokenize(commands)
    _bench(commands, speculating)
    study = "measure one matrix product in five forms, beside the limits of this machine"
    add_kernels(commands.add_parser("kernels", help=study), _at_least)
    _slice(commands)
    _synth(commands)
    _perplexity(commands)
    _quantize(commands)
    _machine(commands, engine)
    return parser


def _window(commands: _Commands, answering: list[_Parser]) -> None:
    desktop = commands.add_parser("desktop", parents=answering, help="open the window")
    desktop.add_argument("model", nargs="?", metavar="MODEL")

    tour = commands.add_parser(
        "tour", parents=answering, help="drive the real interface offscreen and write its pictures"
    )
    tour.add_argument("directory", type=Path, metavar="DIR")
    tour.add_argument("--prompt", help="what to ask the model")
    tour.add_argument("--model", metavar="MODEL")
    tour.add_argument("--language", default="en", metavar="CODE", help="of the texts: en, ko")


def _chat(commands: _Commands, answering: list[_Parser]) -> None:
    chat = commands.add_parser("chat", parents=answering, help="talk in the terminal")
    chat.add_argument("model", nargs="?", metavar="MODEL")
    chat.add_argument(
        "-p", "--prompt", metavar="TEXT", help="ask once; else read from the terminal"
    )
    chat.add_argument("--system", metavar="TEXT", help="the system prompt")
    chat.add_argument(
        "--connect",
        metavar="URL",
        help="ask a server with OpenAI's protocol: vLLM, llama-server, LM Studio, llm-lite",
    )
    chat.add_argument("--model", dest="remote_model", metavar="NAME", help="of that server")
    chat.add_argument(
        "--api-key", metavar="K", help="of that server; without it, LLM_LITE_API_KEY is used"
    )
    add_learned_drafts(chat.add_argument_group("learned drafts"))
    chat.add_argument("--raw", action="store_true", help="no chat template")
    chat.add_argument("--json", action="store_true", help="one object instead of a stream")
    chat.add_argument(
        "--no-thinking",
        action="store_true",
        help="set the chat template's switch for thinking to off",
    )
    chat.add_argument(
        "--overflow",
        choices=OVERFLOWS,
        help="when the context is full; by default a conversation forgets its middle, and one "
        "answer stops",
    )


def _tokenize(commands: _Commands) -> None:
    parser = commands.add_parser("tokenize", help="how a text becomes tokens, stage by stage")
    parser.add_argument("model", metavar="MODEL", help="or the path of a tokenizer.json")
    parser.add_argument("text", nargs="?", metavar="TEXT")
    parser.add_argument("--text-file", type=Path, metavar="F", help="a text, UTF-8")
    parser.add_argument(
        "--steps", action="store_true", help="every merge, lattice or look-up of each word"
    )
    parser.add_argument(
        "--control", action="store_true", help="names of control tokens in the text count as these"
    )
    parser.add_argument(
        "--chat", action="store_true", help="the text as a message, with the model's chat template"
    )
    parser.add_argument("--json", action="store_true", help="one object")


def _bench(commands: _Commands, speculating: list[_Parser]) -> None:
    bench = commands.add_parser("bench", parents=speculating, help="measure speed")
    bench.add_argument("model", nargs="?", metavar="MODEL")
    bench.add_argument("--prompt-tokens", type=int, default=512)
    bench.add_argument("--new-tokens", type=int, default=128)
    bench.add_argument("--depth", type=int, default=0, help="tokens in the cache beforehand")
    bench.add_argument("--repeat", type=int, default=3)
    bench.add_argument(
        "--conversation",
        type=int,
        metavar="TOKENS",
        help="before the second turn whose reuse is measured; 0: none; by default 2000",
    )
    bench.add_argument(
        "--curve",
        action="store_true",
        help="measure passes over several tokens too, as drafts are verified",
    )
    bench.add_argument("--json", action="store_true")


def _slice(commands: _Commands) -> None:
    cut = commands.add_parser("slice", help="cut a smaller Gemma 3n out of a larger one")
    cut.add_argument("source", metavar="SRC", help="a Hugging Face directory, a variant or a name")
    cut.add_argument("target", type=Path, metavar="DST", help="the directory to write")
    cut.add_argument(
        "--config", required=True, metavar="E2B|NAME|FILE", help="which layers and widths stay"
    )
    cut.add_argument("--view", action="store_true", help="use SRC's files instead of copying them")


def _synth(commands: _Commands) -> None:
    synth = commands.add_parser(
        "synth", help="write a checkpoint of a real model's shapes with random weights, to measure"
    )
    shapes = "gemma-3n-e4b|gemma-3n-e2b|gemma-4-e4b|smollm2-135m|llama-1b"
    synth.add_argument("name", metavar=shapes)
    synth.add_argument("target", type=Path, metavar="DST", help="the directory or file to write")
    synth.add_argument("--mode", metavar="int4|int8|fp16|fp32", help="int4 if left out")
    synth.add_argument(
        "--format", choices=["variant", "gguf"], default="variant", help="GGUF files are of Q4_0"
    )
    synth.add_argument("--seed", type=_at_least(0), default=0)


def _machine(commands: _Commands, engine: _Parser) -> None:
    verify = commands.add_parser("verify", help="look for damage in a model's files")
    verify.add_argument("model", nargs="?", metavar="MODEL")
    verify.add_argument("--json", action="store_true")

    add_actions(commands.add_parser("models", help="find, add and remove models"))

    drafts = commands.add_parser("drafts", help="what drafts learned from answers, and delete it")
    drafts.add_argument("--delete", action="store_true", help="all of it, of all models")
    drafts.add_argument("--json", action="store_true")

    doctor = commands.add_parser("doctor", parents=[engine], help="what this machine offers")
    doctor.add_argument("--json", action="store_true")
    doctor.add_argument(
        "--benchmark-modes",
        action="store_true",
        help="measure every weight mode here, and recommend one",
    )
    doctor.add_argument("--model", metavar="MODEL", help="to measure with; else the default model")


def _instrument(commands: _Commands, name: str, what: str, out: str) -> _Parser:
    """A command that runs a model exactly over a text and writes an array."""
    # set_defaults below changes the parent's own actions, hence a parent of its own.
    parser = commands.add_parser(
        name, parents=[_engine_parent()], help=f"the exact instrument: {what}"
    )
    parser.add_argument("model", metavar="MODEL")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--text", metavar="T")
    given.add_argument("--text-file", type=Path, metavar="F")
    given.add_argument("--tokens", metavar="1,2,3")
    parser.add_argument("--out", type=Path, required=True, metavar=out)
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(kv=("fp32", "fp32"), activations="a32")
    return parser


def _perplexity(commands: _Commands) -> None:
    what = "the exact instrument: perplexity of a text, and divergence from another weight mode"
    parser = commands.add_parser("perplexity", parents=[_engine_parent()], help=what)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--file", type=Path, required=True, metavar="F", help="a text, UTF-8")
    parser.add_argument("--reference-mode", choices=MODES, default="fp32")
    parser.add_argument(
        "--reference", metavar="MODEL", help="whose the reference is, if not the same file's"
    )
    parser.add_argument(
        "--reference-kv",
        type=kv_types,
        metavar="TYPE[,TYPE]",
        help="the cache's types of the reference, if not the same",
    )
    parser.add_argument("--chunks", type=_at_least(0), default=0, help="at most; 0: all")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(kv=("fp32", "fp32"), activations="a32", ctx=512)


def _quantize(commands: _Commands) -> None:
    what = "write a model's weights in another mode, as a directory that loads at once"
    parser = commands.add_parser("quantize", help=what)
    parser.add_argument("source", metavar="SRC", help="a GGUF file, a directory or a known name")
    parser.add_argument("destination", metavar="DST", help="the directory to write")
    parser.add_argument("--mode", required=True, metavar="int4|int8|fp16|fp32")
    parser.add_argument(
        "--calibrate",
        metavar="FILE|self",
        help="a text to measure the matrices' inputs with; self: the model writes one",
    )
    parser.add_argument("--force", action="store_true", help="replace a variant that is there")
    parser.add_argument("--threads", type=_at_least(0), default=0, metavar="N")
    parser.add_argument("--json", action="store_true", help="the report as one object")


def _engine_parent() -> _Parser:
    """Of every command that runs a model."""
    parent = _Parser(add_help=False)
    add_engine(parent.add_argument_group("engine"), _at_least)
    return parent


def _speculation_parent() -> _Parser:
    parent = _Parser(add_help=False)
    add_speculation(parent.add_argument_group("speculation"))
    return parent


def _sampling_parent() -> _Parser:
    """Of commands that let it answer."""
    parent = _Parser(add_help=False)
    add_sampling(parent.add_argument_group("sampling"), _at_least)
    return parent


class _at_least:  # noqa: N801  argparse shows the name
    def __init__(self, low: int) -> None:
        self._low = low
        self.__name__ = f"integer of at least {low}"

    def __call__(self, text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            problem = f"expected a whole number, found {text!r}"
            raise argparse.ArgumentTypeError(problem) from None
        if value < self._low:
            raise argparse.ArgumentTypeError(f"expected at least {self._low}, found {value}")
        return value


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("llm-lite")
    except PackageNotFoundError:  # run from a source tree that was not installed
        return "0 (not installed)"
