"""Words in place of mask tokens, as texts."""

from __future__ import annotations


def with_word(text: str, mask: str, number: int, word: str) -> str:
    """Return the text with a word in place of its mask of that number, counted from 0; "##ing"
    joins the word before it. The text is unchanged if it has no such mask."""
    pieces = text.split(mask)
    if number + 1 >= len(pieces):
        return text
    before, behind = mask.join(pieces[: number + 1]), mask.join(pieces[number + 1 :])
    if word.startswith("##"):
        before, word = before.rstrip(), word[2:]
    return f"{before}{word}{behind}"
