"""The commands that can be typed after a slash in a conversation, as a table."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

from msgspec import Struct

from llm_lite.cli.conversation import saved
from llm_lite.cli.conversation.conversation import TerminalConversation, checked
from llm_lite.cli.engine_words import FORMS, LONGEST_GRAMMAR, bias_from, phrase, schema_of
from llm_lite.cli.terminal.answering import execute, statistics
from llm_lite.cli.terminal.output import note
from llm_lite.core.errors import RequestError
from llm_lite.core.files.places import expanded
from llm_lite.core.files.text_input import read_text
from llm_lite.core.generation.grammars.grammar import check_grammar
from llm_lite.core.generation.sampling import check
from llm_lite.core.loading.accelerators import backend_names
from llm_lite.core.messages import (
    ACTIVATIONS,
    BACKENDS,
    EFFORT,
    EXPERTS_IN,
    KV_TYPES,
    MODES,
    OVERFLOWS,
    ChatMessage,
    ExportMaps,
    KvType,
    SamplingOptions,
    SetInterventions,
)
from llm_lite.core.messages.gains import gains_of, with_gains
from llm_lite.core.messages.sampling_options import OPTIONS, Option
from llm_lite.core.records import replace

_ON_OFF = ("on", "off")
_EFFORTS = ("low", "medium", "high", "off")  # templates may have others
_TYPED = ("number", "whole", "flag")  # kinds of sampler options that a command sets


class SlashCommand(Struct, frozen=True):
    """`run` is given what follows the name, without spaces around it."""

    takes: str  # "" where it takes nothing
    help: str
    run: Callable[[TerminalConversation, str], None]
    values: tuple[str, ...] = ()  # offered by completion
    takes_path: bool = False


def is_command(line: str) -> bool:
    """`//text` is a message that begins with a slash."""
    return line.startswith("/") and not line.startswith("//")


def run_command(talk: TerminalConversation, line: str) -> None:
    """Run the command of a line. RequestError for an unknown name, and for what a command
    refuses."""
    name, _, argument = checked(line)[1:].partition(" ")
    command = COMMANDS.get(name.strip())
    if command is None:
        nearest = difflib.get_close_matches(name, COMMANDS, 1, 0.0) or ["help"]
        raise RequestError(
            f"there is no command /{name[:40]}: the nearest is /{nearest[0]}; /help lists them "
            "all, and //text sends what begins with a slash"
        )
    argument = argument.strip()
    if argument and not command.takes:
        raise RequestError(f"/{name} takes nothing, found {argument[:60]!r}")
    command.run(talk, argument)


def _help(talk: TerminalConversation, argument: str) -> None:
    for name, command in COMMANDS.items():
        note(f"  {f'/{name} {command.takes}'.rstrip():<42} {command.help}")
    note("  Alt-Enter or a backslash at the end goes on in the next line; //text sends /text.")


def _system(talk: TerminalConversation, argument: str) -> None:
    if argument:
        talk.system = "" if argument == "off" else argument
    note(f"system prompt: {talk.system}" if talk.system else "there is no system prompt")


def _new(talk: TerminalConversation, argument: str) -> None:
    talk.begin()
    note("a new conversation")


def _retry(talk: TerminalConversation, argument: str) -> None:
    talk.retry()


def _edit(talk: TerminalConversation, argument: str) -> None:
    """Ask the given text in the place of the last question; without one, put that question into the
    line to edit."""
    question = talk.undo()
    if argument:
        talk.submit(argument)
    else:
        talk.draft = question


def _undo(talk: TerminalConversation, argument: str) -> None:
    note(f"taken back: {talk.undo()[:200]}")


def _version(talk: TerminalConversation, argument: str) -> None:
    """Show another version of a message, the last that has several, or list all that have."""
    places = [at for at in range(len(talk.tree.path)) if len(talk.tree.versions(at)) > 1]
    if not places:
        raise RequestError("/version: nothing was said in another way; /retry and /edit do that")
    if argument:
        at, dot, version = argument.rpartition(".")
        index = _whole(at, "version") - 1 if dot else places[-1]
        if index not in places:
            known = ", ".join(str(place + 1) for place in places)
            raise RequestError(f"/version: expected message {known}, found {at[:40]!r}")
        count, wanted = len(talk.tree.versions(index)), _whole(version, "version")
        if not 1 <= wanted <= count:
            raise RequestError(f"/version: expected 1 to {count}, found {wanted}")
        talk.show_version(index, wanted - 1)
        for turn in talk.tree.path[index:]:
            _print(turn.message)
        return
    for index in places:
        words = " ".join(talk.messages[index].content.split())[:60]
        shown, count = talk.tree.version(index) + 1, len(talk.tree.versions(index))
        note(f"message {index + 1}, version {shown} of {count}: {words}")


def _continue(talk: TerminalConversation, argument: str) -> None:
    talk.continue_last()


def _model(talk: TerminalConversation, argument: str) -> None:
    if argument:
        talk.load(argument)
    note(f"{talk.model.name} from {talk.model.path}, on {talk.executor.device}")


def _one_of(asked: str, known: tuple[str, ...], name: str) -> str:
    """Return the known value that was typed, or the only one that begins with what was typed."""
    if asked in known:
        return asked
    found = [value for value in known if value.startswith(asked)]
    if len(found) != 1:
        raise RequestError(f"/{name}: expected one of {', '.join(known)}, found {asked[:40]!r}")
    return found[0]


def _option(name: str, known: tuple[str, ...], talk: TerminalConversation, argument: str) -> None:
    """Change an option of the engine that has a few values, and print it."""
    if argument:
        value: Any = _one_of(argument, known, name)
        talk.reconfigure(replace(talk.options, **{name: value}))
    used, asked = getattr(talk.executor, name), getattr(talk.options, name)
    note(f"{name}: {used}" + ("" if used == asked else f" ({asked} was asked for)"))


def _backend(talk: TerminalConversation, argument: str) -> None:
    _option("backend", backend_names() if argument else (), talk, argument)


def _context(talk: TerminalConversation, argument: str) -> None:
    if argument:
        talk.reconfigure(replace(talk.options, context=_whole(argument, "context")))
    note(f"context: {talk.model.context} tokens, {talk.model.trained_context} trained")


def _kv(talk: TerminalConversation, argument: str) -> None:
    if argument:
        names = [_one_of(part.strip(), KV_TYPES, "kv") for part in argument.split(",")]
        if len(names) > 2:
            raise RequestError("/kv: expected one type, or those of keys and values")
        kinds = [kind for name in names for kind in get_args(KvType) if kind == name]
        talk.reconfigure(replace(talk.options, keys=kinds[0], values=kinds[-1]))
    note(f"kv: {talk.executor.keys} keys, {talk.executor.values} values")


def _overflow(talk: TerminalConversation, argument: str) -> None:
    if argument:
        chosen = _one_of(argument, OVERFLOWS, "overflow")
        talk.overflow = next(known for known in OVERFLOWS if known == chosen)
    note(f"overflow: {talk.overflow}")


def _think(talk: TerminalConversation, argument: str) -> None:
    if not talk.model.switches_thinking:
        raise RequestError(
            f"/think: the chat template of {talk.model.name} has no switch for thinking"
        )
    if argument:
        talk.thinking = _one_of(argument, _ON_OFF, "think") == "on"
    note(f"thinking: {'on' if talk.thinking else 'off'}")


def _effort(talk: TerminalConversation, argument: str) -> None:
    """Set how much the model thinks, where its template reads it; a server may leave it out."""
    is_here = talk.executor.backend != "remote"
    if is_here and EFFORT not in talk.model.template_variables:
        raise RequestError(f"/effort: the chat template of {talk.model.name} takes no effort")
    if argument:
        others = {name: value for name, value in talk.values.items() if name != EFFORT}
        talk.values = others if argument == "off" else {**others, EFFORT: argument}
    note(f"effort: {talk.values.get(EFFORT, 'off')}")


def _choose(row: Option, talk: TerminalConversation, argument: str) -> None:
    """Set a sampler option, or say what it is."""
    if argument:
        value = _value(row, argument)
        check(replace(talk.sampling, **{row.name: value}))
        talk.chosen = {**talk.chosen, row.name: value}
    value = getattr(talk.sampling, row.name)
    if row.kind == "flag":
        value = "on" if value else "off"
    note(f"{row.word}: {'off' if value is None else value}{_advised_by(talk, row.name)}")


def _advised_by(talk: TerminalConversation, field: str) -> str:
    """Return the source of a value that the model advises, "" if the person chose the value."""
    known = talk.model.sampling_defaults
    source = next((default.source for default in known if default.name == field), "")
    return f" ({source})" if source and field not in talk.chosen else ""


def _form(talk: TerminalConversation, argument: str) -> None:
    if argument:
        talk.form = _one_of(argument, FORMS, "form")
    note(f"form: {'completion' if talk.completes else 'chat'} ({talk.form})")


def _value(row: Option, argument: str) -> Any:
    if row.kind == "flag":
        return _one_of(argument, _ON_OFF, row.word) == "on"
    if row.default is None and argument == "off":
        return None
    if row.kind == "whole":
        is_minus_one = argument == "-1" and row.least == -1
        return row.meant(-1 if is_minus_one else _whole(argument, row.word))
    try:
        return float(argument)
    except ValueError:
        raise RequestError(f"/{row.word}: expected a number, found {argument[:40]!r}") from None


def _whole(argument: str, name: str) -> int:
    if not (argument.isascii() and argument.isdecimal() and len(argument) < 20):
        raise RequestError(f"/{name}: expected a whole number, found {argument[:40]!r}")
    return int(argument)


def _set_stop(talk: TerminalConversation, argument: str) -> None:
    """One more stop string; \\n and \\t in it are a line's end and a tab."""
    if argument:
        text = argument.replace("\\n", "\n").replace("\\t", "\t")
        stop = () if argument == "off" else (*talk.sampling.stop, text)
        _take(talk, replace(talk.sampling, stop=stop))
    note(f"stop: {', '.join(map(repr, talk.sampling.stop)) or 'off'}")


def _set_bias(talk: TerminalConversation, argument: str) -> None:
    if argument:
        words = () if argument == "off" else argument.split()
        _take(talk, replace(talk.sampling, logit_bias=tuple(bias_from(word) for word in words)))
    biases = " ".join(f"{token}={value:g}" for token, value in talk.sampling.logit_bias)
    note(f"logit-bias: {biases or 'off'}")


def _set_schema(talk: TerminalConversation, argument: str) -> None:
    if argument:
        text = "" if argument == "off" else schema_of(argument)
        _take(talk, replace(talk.sampling, json_schema=text, grammar=""))
    note("json-schema: " + (talk.sampling.json_schema or "off"))


def _set_grammar(talk: TerminalConversation, argument: str) -> None:
    if argument:
        text = "" if argument == "off" else read_text(Path(argument), LONGEST_GRAMMAR)
        _take(talk, replace(talk.sampling, grammar=text, json_schema=""))
    note("grammar: " + (talk.sampling.grammar or "off"))


def _take(talk: TerminalConversation, sampling: SamplingOptions) -> None:
    """Use these options from now on. RequestError if no answer could be made with them."""
    check(sampling)
    check_grammar(sampling)
    names = ("stop", "logit_bias", "json_schema", "grammar")
    talk.chosen = {**talk.chosen, **{name: getattr(sampling, name) for name in names}}


def _set_gains(talk: TerminalConversation, argument: str) -> None:
    """Set gains of heads from the next step on. RequestError if the model has no such head."""
    talk.refuse_elsewhere("gains")
    if argument == "off":
        talk.gains = {}
    else:
        talk.gains = {**talk.gains, **dict(_gain(talk, part) for part in argument.split())}
    if argument:
        rows = [list(row) for row in gains_of(talk.interventions, talk.model)]
        for (layer, head), gain in talk.gains.items():
            rows[layer][head] = gain
        wanted = with_gains(talk.interventions, tuple(map(tuple, rows)), talk.model)
        talk.engine.submit(SetInterventions(wanted))
    changed = (f"{at}.{h}={gain:g}" for (at, h), gain in talk.gains.items() if gain != 1)
    note("gains: " + (" ".join(changed) or "all 1"))


def _export(talk: TerminalConversation, argument: str) -> None:
    """Write attention maps to a file. RequestError if nothing was written."""
    talk.refuse_elsewhere("attention")
    path, *names = argument.split() or [""]
    if not names:
        raise RequestError("/attention: expected a file and heads such as 0.1")
    heads = tuple(_head(talk, name, "attention") for name in names)
    place = str(expanded(path))
    execute(talk.engine, ExportMaps(place, heads))
    note(f"{place}: maps of {len(heads)} heads")


def _gain(talk: TerminalConversation, text: str) -> tuple[tuple[int, int], float]:
    name, equals, value = text.partition("=")
    try:
        gain = float(value)
    except ValueError:
        gain = math.nan
    if not equals or not math.isfinite(gain) or abs(gain) > 1e30:
        raise RequestError(f"/gains: expected layer.head=gain such as 0.1=0, found {text[:40]!r}")
    return _head(talk, name, "gains"), gain


def _head(talk: TerminalConversation, text: str, command: str) -> tuple[int, int]:
    layer, dot, head = text.partition(".")
    if not dot or not all(n.isascii() and n.isdecimal() and len(n) < 9 for n in (layer, head)):
        raise RequestError(f"/{command}: expected layer.head such as 0.1, found {text[:40]!r}")
    if int(layer) >= talk.model.layers or int(head) >= talk.model.heads:
        raise RequestError(
            f"/{command}: there is no head {text}: the model has layers 0 to "
            f"{talk.model.layers - 1} and heads 0 to {talk.model.heads - 1}"
        )
    return int(layer), int(head)


def _stats(talk: TerminalConversation, argument: str) -> None:
    note(statistics(talk.finished) if talk.finished else "there is no answer yet")
    cache = talk.newest_cache()
    if cache is not None:
        note(
            f"cache: {cache.length} of {cache.context} tokens; {len(cache.prefixes)} prefixes of "
            f"other conversations in {cache.pool_used / 2**20:.1f} of "
            f"{cache.pool_budget / 2**20:.1f} MiB"
        )
    if talk.finished:
        note(f"memory: {talk.finished.stats.peak_rss_bytes / 2**20:.0f} MiB at most")


def _say_again(talk: TerminalConversation, argument: str) -> None:
    """Print the conversation as it is."""
    for message in _all(talk):
        _print(message)


def _print(message: ChatMessage) -> None:
    note(f"{message.role}:")
    for line in message.content.split("\n"):
        note(f"  {line}")


def _all(talk: TerminalConversation) -> tuple[ChatMessage, ...]:
    return (*((ChatMessage("system", talk.system),) if talk.system else ()), *talk.messages)


def _quit(talk: TerminalConversation, argument: str) -> None:
    talk.over = True


def _sampling(row: Option) -> tuple[str, SlashCommand]:
    takes, what = {"number": "X", "whole": "N", "flag": "on|off"}[row.kind], _help_of(row)
    if row.default is None:
        takes, what = f"{takes}|off", f"{what}; off: a new one for each answer"
    elif row.off is not None:
        what = f"{what}; {row.off:g}: off"
    values = _ON_OFF if row.kind == "flag" else ()
    return row.word, SlashCommand(f"[{takes}]", what, partial(_choose, row), values)


def _help_of(row: Option) -> str:
    return phrase(row.summary)


def _engine(name: str, known: tuple[str, ...], what: str) -> tuple[str, SlashCommand]:
    return name, SlashCommand(f"[{'|'.join(known)}]", what, partial(_option, name, known), known)


COMMANDS: dict[str, SlashCommand] = {
    "help": SlashCommand("", "this list", _help),
    "system": SlashCommand("[TEXT|off]", "the system prompt, from the next answer on", _system),
    "new": SlashCommand("", "begin a new conversation", _new),
    "retry": SlashCommand("", "another answer to the last question, beside the first", _retry),
    "edit": SlashCommand("[TEXT]", "change the last question and ask it again", _edit),
    "undo": SlashCommand("", "take the last question and its answer back", _undo),
    "version": SlashCommand("[[MESSAGE.]N]", "another version of what was said", _version),
    "continue": SlashCommand("", "go on with the last answer", _continue),
    "show": SlashCommand("", "the conversation so far", _say_again),
    "model": SlashCommand("[MODEL]", "another model", _model, takes_path=True),
    **dict(
        (
            _engine("mode", MODES, "how weights are kept"),
            _engine("activations", ACTIVATIONS, "what products are made of"),
            _engine("experts", EXPERTS_IN, "where a mixture's experts are"),
        )
    ),
    "backend": SlashCommand(f"[{'|'.join(BACKENDS)}|NAME]", "who computes", _backend, BACKENDS),
    "kv": SlashCommand("[TYPE[,TYPE]]", "the cache's types", _kv, KV_TYPES),
    "context": SlashCommand("[TOKENS]", "the size of the context", _context),
    "overflow": SlashCommand(
        f"[{'|'.join(OVERFLOWS)}]", "what happens when the context is full", _overflow, OVERFLOWS
    ),
    "think": SlashCommand(
        "[on|off]", "whether the model thinks before it answers", _think, _ON_OFF
    ),
    "effort": SlashCommand(
        "[LEVEL|off]", "how much the model thinks, as its template takes it", _effort, _EFFORTS
    ),
    **dict(map(_sampling, (row for row in OPTIONS.values() if row.kind in _TYPED))),
    "form": SlashCommand(
        f"[{'|'.join(FORMS)}]", "questions and answers, or a text that goes on", _form, FORMS
    ),
    "stop": SlashCommand("[TEXT|off]", _help_of(OPTIONS["stop"]), _set_stop),
    "logit-bias": SlashCommand("[ID=V ...|off]", _help_of(OPTIONS["logit_bias"]), _set_bias),
    "json-schema": SlashCommand(
        "[FILE|TEXT|off]", _help_of(OPTIONS["json_schema"]), _set_schema, takes_path=True
    ),
    "grammar": SlashCommand(
        "[FILE|off]",
        _help_of(OPTIONS["grammar"]),
        _set_grammar,
        takes_path=True,
    ),
    "stats": SlashCommand("", "the last answer's speed, and the cache", _stats),
    "gains": SlashCommand(
        "[LAYER.HEAD=GAIN ...|off]", "weigh the outputs of attention heads", _set_gains
    ),
    "attention": SlashCommand(
        "FILE.npz LAYER.HEAD ...", "write attention maps to a file", _export, takes_path=True
    ),
    "save": SlashCommand("FILE", "write the conversation", saved.save, takes_path=True),
    "save-cache": SlashCommand(
        "FILE", "write the cache of keys and values", saved.save_cache, takes_path=True
    ),
    "open": SlashCommand(
        "FILE", "read a conversation or a cache that was saved", saved.open_kept, takes_path=True
    ),
    "quit": SlashCommand("", "leave", _quit),
}
