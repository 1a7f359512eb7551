"""Texts as an encoder takes them: between its special tokens, pairs with one between, and cut where
they are too long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from llm_lite.core.errors import RequestError
from llm_lite.core.models.model import TextEmbedding
from llm_lite.core.plain_text import quote
from llm_lite.core.text.tokenizer import Tokenizer


def with_prompt(how: TextEmbedding | None, texts: Sequence[str], task: str) -> list[str]:
    """Return the texts behind the model's prompt for a task; as they are for "". RequestError if it
    has none."""
    if not task:
        return list(texts)
    prompts = dict(how.prompts) if how is not None else {}
    if task not in prompts:
        known = f"it has those for {', '.join(prompts)}" if prompts else "its files name none"
        raise RequestError(f"the model has no prompt for the task {quote(task)}: {known}")
    return [prompts[task] + text for text in texts]


def prompt_tokens(tokenizer: Tokenizer, how: TextEmbedding, task: str) -> int:
    """Return how many tokens of a text of a task are of its prompt, those before every text among
    them; 0 for ""."""
    if not task:
        return 0
    ids = tokenizer.encode(dict(how.prompts)[task], parse_special=False)
    return len(tokenizer.around[0]) + len(ids)


def encode_texts(tokenizer: Tokenizer, texts: Sequence[str], most: int) -> list[list[int]]:
    """Return the ids of [CLS] text [SEP] for each text, as the file has it; a text is cut after
    `most` tokens. Special tokens that are typed, such as "[MASK]", are plain text."""
    return [shortened(tokenizer, ids, most) for ids in tokenizer.encode_texts(texts)]


def encode_text(tokenizer: Tokenizer, text: str, most: int) -> list[int]:
    """Return the ids of one text, as `encode_texts` does."""
    return encode_texts(tokenizer, [text], most)[0]


def shortened(tokenizer: Tokenizer, tokens: Sequence[int], most: int) -> list[int]:
    """Return the ids of a text, cut to `most` tokens before those that stand behind every text."""
    _, after = tokenizer.around
    behind = len(after) if tuple(tokens[len(tokens) - len(after) :]) == after else 0
    if len(tokens) <= most or behind >= most:
        return list(tokens[:most])
    return [*tokens[: most - behind], *tokens[len(tokens) - behind :]]


def encode_pair(tokenizer: Tokenizer, first: str, second: str, most: int) -> list[int]:
    """Return [CLS] first [SEP] second [SEP], as the file has it; the longer text is cut if both
    have more than `most` tokens. RequestError if the model has no pairs."""
    parts = pair_parts(tokenizer, first, second, most)
    return [*parts.first, *parts.second]


class PairParts(NamedTuple):
    """Ids of a pair: up to the separator between its texts, and from the second text on."""

    first: list[int]
    second: list[int]
    left_out: int  # tokens that are not read


def pair_parts(tokenizer: Tokenizer, first: str, second: str, most: int) -> PairParts:
    """Encode a pair of texts as `encode_pair` does, in two parts."""
    if not tokenizer.around_pair:
        raise RequestError("the model's tokenizer has no pairs of texts: expected one text")
    before, between, behind = tokenizer.around_pair
    texts = [tokenizer.encode(text, parse_special=False) for text in (first, second)]
    over = left_out = max(0, sum(map(len, (before, between, behind, *texts))) - most)
    while over > 0 and any(texts):
        longer = max(texts, key=len)
        cut = min(over, max(1, abs(len(texts[0]) - len(texts[1]))))
        del longer[len(longer) - cut :]
        over -= cut
    one, other = texts
    return PairParts([*before, *one, *between], [*other, *behind], left_out - max(0, over))
