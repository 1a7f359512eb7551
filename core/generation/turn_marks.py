"""Finds what begins another's turn in a chat template, for an answer that goes on as the person.

A conversation with stand-ins is rendered: what stands between an answer and the next question is
the answer's end and the question's beginning. Its control tokens end an answer wherever they are
written, as nothing else than a turn begins by them. Text that spells them does not: a model that
has such tokens and writes their letters quotes them. Only where a vocabulary has no token for the
mark, text ends the answer, unless it stands in code or in quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from llm_lite.core.errors import RequestError, UnsupportedError
from llm_lite.core.generation.role_ends import RoleEnds
from llm_lite.core.generation.turns import turns_for
from llm_lite.core.messages import ChatMessage
from llm_lite.core.text.chat_template import ChatTemplate
from llm_lite.core.text.thinking import MARKS as THOUGHTS
from llm_lite.core.text.tokenizer import Tokenizer
from llm_lite.core.tools.calls import MARKS as CALLS

_ANSWER, _QUESTION = "zqanswer", "zqquestion"
_TALK = (
    ChatMessage("user", "zqfirst"),
    ChatMessage("assistant", _ANSWER),
    ChatMessage("user", _QUESTION),
)
_BRACKETS = re.compile(r"<[^<>\s]{1,60}>|\[[^\[\]\s]{1,60}\]")
_MOST_MARK = 200  # characters between two turns
_KEY = "turn ends"  # in what is known of a template


def turn_ends(tokenizer: Tokenizer, template: ChatTemplate) -> RoleEnds | None:
    """Return what ends an answer that goes on as somebody else; None if the template tells of
    nothing that does."""
    known = template.known.get(_KEY)
    if known is None:
        known = template.known[_KEY] = WeakKeyDictionary()
    if tokenizer not in known:
        known[tokenizer] = _ends_of(tokenizer, template)
    found: RoleEnds | None = known[tokenizer]
    return found


def _ends_of(tokenizer: Tokenizer, template: ChatTemplate) -> RoleEnds | None:
    ids = tokenizer.encode(_between(template))
    if not ids:
        return None
    in_answers = set(_ids_in_answers(tokenizer, template))
    control = {token for token in ids if tokenizer.is_special(token)}
    tokens = frozenset(control - tokenizer.end_ids - in_answers)
    runs = () if tokens else tuple(_runs(tokenizer, ids, in_answers))
    texts: tuple[str, ...] = ()
    if not runs and tokens <= {tokenizer.bos_id}:  # no token of its own begins a question
        texts = tuple(_texts(tokenizer, ids, has_control=bool(control)))
    if not (texts or tokens or runs):
        return None
    return RoleEnds(texts, tokens, begins_line=False, runs=runs, may_be_quoted=True)


def _between(template: ChatTemplate) -> str:
    """Return what the template writes between an answer and the next question."""
    try:
        turns = turns_for(template, _TALK)
        text = (
            template.render(turns.for_template(template)) if len(turns.turns) == len(_TALK) else ""
        )
    except (RequestError, UnsupportedError):
        return ""
    _, answer, rest = text.partition(_ANSWER)
    found, question, _ = rest.partition(_QUESTION)
    return found if answer and question and len(found) <= _MOST_MARK else ""


def _ids_in_answers(tokenizer: Tokenizer, template: ChatTemplate) -> Iterator[int]:
    """Yield control tokens that answers of the template's style write themselves."""
    style, calls = template.thinking_style, template.tool_style
    texts: list[str] = []
    if style is not None:
        marks = THOUGHTS[style]
        texts += [marks.opening, marks.closing, *marks.skipped, *marks.written, marks.ending]
    if calls in CALLS:
        texts += [*CALLS[calls].openings, *CALLS[calls].closings]
    for text in texts:
        yield from filter(tokenizer.is_special, tokenizer.encode(text))


def _runs(tokenizer: Tokenizer, ids: list[int], in_answers: set[int]) -> Iterator[tuple[int, ...]]:
    """Yield runs of tokens that begin a person's turn, where answers write the same control tokens
    in other runs: of each, from a control token up to the first word behind it."""
    word = next(
        (n for n, token in enumerate(ids) if n and not tokenizer.is_special(token)), len(ids)
    )
    for first in range(word if word < len(ids) else 0):
        if ids[first] in in_answers:
            yield tuple(ids[first : word + 1])


def _texts(tokenizer: Tokenizer, ids: list[int], *, has_control: bool) -> Iterator[str]:
    """Yield the text that begins a person's turn where no token does. A word, as "USER:", is a mark
    only where no control token ends the answer: a trained model ends it by that."""
    text = tokenizer.decode(token for token in ids if not tokenizer.is_special(token))
    line = "\n" if text.startswith("\n") else ""
    if bracket := _BRACKETS.search(text):
        yield line + bracket[0]
    elif not has_control and (word := text.strip().partition("\n")[0]):
        yield f"\n{word}"
