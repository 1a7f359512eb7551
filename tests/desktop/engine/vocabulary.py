"""The tokens of a scripted engine: a number for each text, and a prompt as a template writes it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from llm_lite.core.generation.prompt import is_open_answer
from llm_lite.core.messages import ChatMessage, CountTokens, PromptToken, TokensCounted
from tests.desktop.engine.answers import ANSWER, KOREAN, MORE, OTHER, THOUGHT, pieces_of

START, END = "<start>", "<end>"  # of a message
Cut = Callable[[str], Sequence[str]]


class Vocabulary:
    """A number for each text that was ever met; for any thread."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self.ids: dict[str, int] = {}
        self.texts: list[str] = []
        for text in texts:
            self.id(text)

    def id(self, text: str) -> int:
        with self._lock:
            if text not in self.ids:
                self.ids[text] = len(self.texts)
                self.texts.append(text)
            return self.ids[text]

    def ids_of(self, texts: Iterable[str]) -> tuple[int, ...]:
        return tuple(map(self.id, texts))

    def spell(self, tokens: Iterable[int]) -> tuple[str, ...]:
        """Return the texts of tokens; () where one is not of this vocabulary."""
        found = tuple(tokens)
        known = all(0 <= token < len(self.texts) for token in found)
        return tuple(self.texts[token] for token in found) if known else ()

    def prompt(
        self,
        messages: Sequence[ChatMessage],
        *,
        answers: bool = False,
        is_open: bool | None = None,
        raw: bool = False,
        cut: Cut = pieces_of,
    ) -> list[PromptToken]:
        """Return a conversation as it is told: a token before each message, and one behind it but
        for an answer that is left open (`is_open`; None: where the last message is one). With
        `answers`, the beginning of the next answer follows. `raw`: the texts alone."""
        told = list[PromptToken]()
        if is_open is None:
            is_open = is_open_answer(messages)
        for index, message in enumerate(messages):
            is_left = raw or (is_open and index == len(messages) - 1)
            is_whole = is_left or not message.thought  # earlier thoughts are not told
            own = (is_whole and self.spell(message.tokens)) or cut(message.content)
            told += [] if raw else [self._special(START)]
            told += [PromptToken(self.id(text), text, index) for text in own]
            told += [] if is_left else [self._special(END)]
        return [*told, self._special(START)] if answers and not (raw or is_open) else told

    def _special(self, text: str) -> PromptToken:
        return PromptToken(self.id(text), text, -1)


def count(
    command: CountTokens, words: Vocabulary | None = None, cut: Cut = pieces_of
) -> TokensCounted:
    """Return a token for each four characters of a text, and those of the conversation."""
    kept = [len(text) for text in command.texts]
    for place, most in enumerate(command.most):
        kept[place] = min(kept[place], 4 * most)
    told = (words or SHARED).prompt(command.messages, raw=command.raw, cut=cut)
    ids = tuple(token.id for token in told)
    tokens = tuple(k // 4 + 1 for k in kept)
    conversation = len(ids) if command.messages else None
    return TokensCounted(tokens, tuple(kept), conversation=conversation, ids=ids)


# Of all engines that are given none: what they have written is known to others, as kept messages
# are when the program starts again. It begins with what they say by themselves.
SHARED = Vocabulary(
    [text for said in (ANSWER, THOUGHT, KOREAN, MORE) for text in pieces_of(said)] + [OTHER]
)
OTHER_ID = SHARED.id(OTHER)


def answered_at(question: str) -> int:
    """Return the position of the first token of the answer to the first question."""
    return len(SHARED.prompt((ChatMessage("user", question),), answers=True))
