"""The cache of a scripted engine: which tokens it holds, under which interventions, and whether
their queries are there. Of what it has lost nothing is kept: there is no pool of prefixes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llm_lite.core.messages import Interventions, Mode, PromptToken


@dataclass(slots=True)
class Held:
    """A position of the cache."""

    token: PromptToken
    interventions: Interventions  # that it was computed under
    mode: Mode  # of the weights
    queried: bool = True  # its queries are kept: this executor computed it


class TokenCache(list[Held]):
    """By position what the cache holds, of the conversation with the number `holder`. `mode`: of
    the weights in use."""

    holder = 0
    mode: Mode = "as-stored"

    def take(
        self,
        prompt: Sequence[PromptToken],
        conversation: int,
        interventions: Interventions,
        *,
        owned: bool = False,
        afresh: bool = False,
    ) -> int:
        """Keep what it shares with a prompt, and return how many tokens: all but the prompt's last,
        which gives the logits. Only what these weights have computed; of another conversation, or
        where an answer has interventions of its own (`owned`), under these interventions."""
        strict, kept = owned or conversation != self.holder, 0
        for held, token in zip(self, prompt[:-1], strict=False):
            if afresh or held.token.id != token.id or held.mode != self.mode:
                break
            if strict and held.interventions.changes != interventions.changes:
                break
            kept += 1
        pairs = zip(self[:kept], prompt, strict=False)
        self[:] = [replace(held, token=token) for held, token in pairs]
        self.holder = conversation
        return kept

    def put(
        self, tokens: Sequence[PromptToken], interventions: Interventions, queried: bool = True
    ) -> None:
        self.extend(Held(token, interventions, self.mode, queried) for token in tokens)

    def switch(self, mode: Mode) -> None:
        """Go to another executor, with weights of this mode; it has computed nothing of it."""
        self.mode = mode
        self[:] = [replace(held, queried=False) for held in self]

    def forget(self, context: int) -> tuple[int, int]:
        """Forget the second quarter of a full context; return its positions first..last-1."""
        first, last = context // 4, len(self) - context // 2
        del self[first:last]
        return first, last

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(held.token.id for held in self)

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(held.token.text for held in self)

    @property
    def rows(self) -> range:
        """Return the positions whose queries are kept."""
        first = len(self)
        while first and self[first - 1].queried:
            first -= 1
        return range(first, len(self))


# Files of kept caches


def keep(path: Path, cache: TokenCache, model: str) -> None:
    kept = {
        "model": model,
        "mode": cache[0].mode,
        "interventions": cache[0].interventions.key,
        "texts": cache.texts,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept), "utf-8")


def kept_tokens(
    path: Path, prompt: Sequence[PromptToken], model: str, mode: Mode, interventions: Interventions
) -> tuple[list[PromptToken], str]:
    """Return the tokens of a prompt that the file has, or why it is of no use."""
    try:
        kept: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except ValueError:
        return [], "damaged"
    if kept["model"] != model:
        return [], "model"
    if kept["mode"] != mode:
        return [], "weights"
    if kept["interventions"] != interventions.key:
        return [], "heads"
    found = list[PromptToken]()
    for token, text in zip(prompt, kept["texts"], strict=False):
        if token.text != text:
            break
        found.append(token)
    return found, "" if found else "beginning"
