"""The texts that a service without an engine has read last, so that questions can be asked about
them: they are read again then."""

from __future__ import annotations

import threading
from collections import OrderedDict

from msgspec import Struct

from llm_lite.core.errors import GoneError

MOST_TEXTS, MOST_TOKENS = 256, 1 << 18


class KeptText(Struct, frozen=True):
    """The tokens of an encoder's text; of an encoder-decoder those of the source, and of what its
    decoder has read: the token that it starts with, and the target without its last."""

    source: tuple[int, ...]
    target: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return len(self.source) + len(self.target)


class KeptTexts:
    """Keeps texts by the names of responses. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: OrderedDict[str, KeptText] = OrderedDict()
        self._tokens = 0

    def keep(self, response: str, text: KeptText) -> None:
        """Keep a text, and forget the oldest where there are more than are kept."""
        with self._lock:
            old = self._texts.pop(response, None)
            self._tokens += text.size - (old.size if old else 0)
            self._texts[response] = text
            while len(self._texts) > 1 and (
                len(self._texts) > MOST_TEXTS or self._tokens > MOST_TOKENS
            ):
                self._tokens -= self._texts.popitem(last=False)[1].size

    def find(self, response: str) -> KeptText:
        """Return a text; GoneError where it is not kept."""
        with self._lock:
            found = self._texts.get(response)
        if found is None:
            raise GoneError(
                f"there is nothing of the name {response}: the last {MOST_TEXTS} are kept, of at "
                f"most {MOST_TOKENS:,} tokens"
            )
        return found
