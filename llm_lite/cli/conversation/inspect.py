"""Commands of a conversation that look inside: gains of heads, attention maps to a file."""

from __future__ import annotations

import math

from llm_lite.cli.conversation.conversation import Conversation
from llm_lite.cli.terminal.answering import wait_for
from llm_lite.cli.terminal.output import say
from llm_lite.core.errors import RequestError
from llm_lite.core.files.places import expanded
from llm_lite.core.messages import ExportMaps, MapsExported, SetGains


def set_gains(talk: Conversation, argument: str) -> None:
    """From the next step on; RequestError where the model has no such head."""
    talk.refuse_elsewhere("gains")
    if argument == "off":
        talk.gains = {}
    else:
        talk.gains = {**talk.gains, **dict(_gain(talk, part) for part in argument.split())}
    if argument:
        layers, heads = range(talk.model.layers), range(talk.model.heads)
        rows = tuple(tuple(talk.gains.get((at, h), 1.0) for h in heads) for at in layers)
        talk.engine.send(SetGains(rows))
    changed = (f"{at}.{h}={gain:g}" for (at, h), gain in talk.gains.items() if gain != 1)
    say("gains: " + (" ".join(changed) or "all 1"))


def export(talk: Conversation, argument: str) -> None:
    """RequestError where nothing was written."""
    talk.refuse_elsewhere("attention")
    path, *names = argument.split() or [""]
    if not names:
        raise RequestError("/attention: expected a file and heads such as 0.1")
    heads = tuple(_head(talk, name, "attention") for name in names)
    place = str(expanded(path))
    talk.engine.send(ExportMaps(talk.next_request(), place, heads))
    exported = wait_for(talk.engine, MapsExported)
    if exported.message:
        raise RequestError(exported.message)
    say(f"{exported.path}: maps of {len(heads)} heads")


def _gain(talk: Conversation, text: str) -> tuple[tuple[int, int], float]:
    name, equals, value = text.partition("=")
    try:
        gain = float(value)
    except ValueError:
        gain = math.nan
    if not equals or not math.isfinite(gain) or abs(gain) > 1e30:
        raise RequestError(f"/gains: expected layer.head=gain such as 0.1=0, found {text[:40]!r}")
    return _head(talk, name, "gains"), gain


def _head(talk: Conversation, text: str, command: str) -> tuple[int, int]:
    layer, dot, head = text.partition(".")
    if not dot or not all(n.isascii() and n.isdecimal() and len(n) < 9 for n in (layer, head)):
        raise RequestError(f"/{command}: expected layer.head such as 0.1, found {text[:40]!r}")
    if int(layer) >= talk.model.layers or int(head) >= talk.model.heads:
        raise RequestError(
            f"/{command}: there is no head {text}: the model has layers 0 to "
            f"{talk.model.layers - 1} and heads 0 to {talk.model.heads - 1}"
        )
    return int(layer), int(head)
