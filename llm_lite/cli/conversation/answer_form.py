"""Commands of a conversation that say where its answers end and what form they have."""

from __future__ import annotations

from pathlib import Path

from llm_lite.cli.conversation.conversation import Conversation
from llm_lite.cli.sampling_words import LONGEST_GRAMMAR, bias_from, schema_of
from llm_lite.cli.terminal.output import say
from llm_lite.core.files.text_input import read_text
from llm_lite.core.generation.grammars.grammar import check_grammar
from llm_lite.core.generation.sampling import check
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.records import replace


def set_stop(talk: Conversation, argument: str) -> None:
    """One more stop string; \\n and \\t in it are a line's end and a tab."""
    if argument:
        text = argument.replace("\\n", "\n").replace("\\t", "\t")
        stop = () if argument == "off" else (*talk.sampling.stop, text)
        _take(talk, replace(talk.sampling, stop=stop))
    say(f"stop: {', '.join(map(repr, talk.sampling.stop)) or 'off'}")


def set_bias(talk: Conversation, argument: str) -> None:
    if argument:
        words = () if argument == "off" else argument.split()
        _take(talk, replace(talk.sampling, logit_bias=tuple(bias_from(word) for word in words)))
    told = " ".join(f"{token}={value:g}" for token, value in talk.sampling.logit_bias)
    say(f"logit-bias: {told or 'off'}")


def set_schema(talk: Conversation, argument: str) -> None:
    if argument:
        text = "" if argument == "off" else schema_of(argument)
        _take(talk, replace(talk.sampling, json_schema=text, grammar=""))
    say("json-schema: " + (talk.sampling.json_schema or "off"))


def set_grammar(talk: Conversation, argument: str) -> None:
    if argument:
        text = "" if argument == "off" else read_text(Path(argument), LONGEST_GRAMMAR)
        _take(talk, replace(talk.sampling, grammar=text, json_schema=""))
    say("grammar: " + (talk.sampling.grammar or "off"))


def _take(talk: Conversation, sampling: SamplingOptions) -> None:
    """RequestError for what no answer could be made with."""
    check(sampling)
    check_grammar(sampling)
    names = ("stop", "logit_bias", "json_schema", "grammar")
    talk.chosen = {**talk.chosen, **{name: getattr(sampling, name) for name in names}}
