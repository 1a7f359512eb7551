"""The tokens of an answer that was read from the history, once the model says what they spell."""

from __future__ import annotations

from llm_lite.core.records import replace
from llm_lite.desktop.features.program.state import Message, Token

SURE = 40  # last characters that tell whether tokens spell an answer


def spelled(message: Message, ids: tuple[int, ...], texts: tuple[str, ...]) -> Message:
    """The answer with whole tokens; as it is where they spell something else, as those of another
    vocabulary do."""
    known = tuple(token.id for token in message.tokens[: len(ids)])
    if not texts or len(texts) != len(ids) or known != ids:
        return message
    raw = "".join(texts)
    thought = message.thought.text if message.thought else ""
    if thought not in raw or message.text.strip()[-SURE:] not in raw:
        return message
    odds = map(message.likelihood, range(len(ids)))
    tokens = tuple(map(Token, ids, texts, odds))
    later = message.tokens[len(ids) :]
    raw += "".join(token.text for token in later)
    fold = message.thought
    if fold is not None:
        fold = replace(fold, split=replace(fold.split, raw=raw))
    return replace(message, tokens=(*tokens, *later), restored=False, likelihoods=(), thought=fold)


def as_known(messages: tuple[Message, ...], shown: tuple[Message, ...]) -> tuple[Message, ...]:
    """`messages` that were read from the history, with all that is known of the same beginning as
    it is shown, as a fork has it: what its tokens spell, and what else could have stood there."""
    known: list[Message] = []
    for message, same in zip(messages, shown, strict=False):
        if _said(message) != _said(same):
            break
        known.append(
            replace(
                message,
                tokens=same.tokens,
                restored=same.restored,
                untokenized=same.untokenized,
                likelihoods=same.likelihoods,
                thought=same.thought,
            )
        )
    return (*known, *messages[len(known) :])


def _said(message: Message) -> tuple[object, ...]:
    thought = message.thought.text if message.thought else ""
    ids = [token.id for token in message.tokens if not message.untokenized]
    return message.role, message.text, thought, ids, message.attachments
