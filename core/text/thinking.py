"""Splits an answer into thinking, a model's own notes, and what it says.

A reasoning model begins its answer with thoughts between two marks, or its template has begun them
already. `Split` takes the answer's text in pieces, however it is cut, and keeps both parts.

- Thoughts stand before the first visible text only: a mark behind it, as in a block of code, is
  text. So is an opening mark within thoughts: the first closing mark ends them.
- Thoughts without an end are thoughts to the end of the answer.

Marks: <think> of Qwen3 and SmolLM3, to which Granite 3 adds <response>; [THINK] of Ministral 3;
channels of Gemma 4 and of Harmony (https://cookbook.openai.com/articles/openai-harmony).
"""

from __future__ import annotations

import re

from msgspec import Struct

from llm_lite.core.messages import Thinking, ThinkingStyle
from llm_lite.core.records import replace


class Marks(Struct, frozen=True):
    opening: str
    closing: str
    skipped: tuple[str, ...] = ()  # may stand before what is said, and is not shown
    written: tuple[str, str] = ("", "")  # as a model writes them, with whitespace around
    ending: str = ""  # behind what is said


MARKS: dict[ThinkingStyle, Marks] = {
    "think": Marks("<think>", "</think>", (), ("<think>\n", "\n</think>\n\n")),
    "granite": Marks(
        "<think>",
        "</think>",
        ("<response>",),
        ("<think>", "</think>\n<response>"),
        "</response>",
    ),
    "mistral": Marks("[THINK]", "[/THINK]", (), ("[THINK]", "[/THINK]")),
    "gemma": Marks(
        "<|channel>thought\n",
        "<channel|>",
        ("<|channel>final\n",),
        ("<|channel>thought\n", "<channel|>"),
    ),
    "harmony": Marks(
        "<|channel|>analysis<|message|>",
        "<|end|>",
        (
            "<|start|>assistant",
            "<|channel|>final<|message|>",
            "<|channel|>commentary<|message|>",
        ),
        (
            "<|channel|>analysis<|message|>",
            "<|end|><|start|>assistant<|channel|>final<|message|>",
        ),
    ),
}
_SOURCES: tuple[tuple[ThinkingStyle, str], ...] = (  # what a template of each style has in it
    ("harmony", r"<\|channel\|>analysis"),
    ("gemma", r"<\|channel>"),
    ("mistral", r"\[/?THINK\]"),
    ("granite", r"</?think>[^<]*<response>"),
    ("think", r"</?think>"),
)


class Split(Struct, frozen=True):
    """An answer as far as it is known. Pure: `fed` and `ended` give another one."""

    thinking: Thinking
    raw: str = ""  # all of the answer so far
    phase: str = (
        "before"  # before (of marks or text), primed (the template has opened), inside, after
    )
    thoughts: str = ""
    words: str = ""  # what is said
    held: str = ""  # may be a mark, or whitespace before one
    marked: bool = False  # some mark was found
    is_ended: bool = False

    @classmethod
    def of(cls, thinking: Thinking) -> Split:
        return cls(thinking, phase="primed" if thinking.inside else "before")

    @property
    def thought(self) -> str:
        """Return the thoughts without whitespace around them."""
        late = self.held if self.is_ended and self.phase in ("inside", "primed") else ""
        return (self.thoughts + late).strip()

    @property
    def visible_text(self) -> str:
        late = self.held if self.is_ended and self.phase in ("before", "after") else ""
        return self.words + (_shown(late) if self.marked and not self.words else late)

    @property
    def is_thinking(self) -> bool:
        return self.phase in ("primed", "inside")

    def fed(self, text: str) -> Split:
        """Return the split with more of the answer, which may continue behind its end too."""
        split = replace(self, raw=self.raw + text, held=self.held + text, is_ended=False)
        while split.held:
            after = _STEPS[split.phase](split, MARKS[split.thinking.style])
            if after is split:
                return split
            split = after
        return split

    def ended(self) -> Split:
        """Return the split with what was held back, as nothing follows."""
        return replace(self, is_ended=True)


def _before(split: Split, marks: Marks) -> Split:
    bare = split.held.lstrip()
    for mark in (marks.opening, *marks.skipped):
        if bare.startswith(mark):
            phase = "inside" if mark == marks.opening else "before"
            again = "\n\n" if phase == "inside" and split.thoughts.strip() else ""
            return replace(
                split,
                phase=phase,
                held=bare[len(mark) :],
                thoughts=split.thoughts + again,
                marked=True,
            )
    if any(mark.startswith(bare) for mark in (marks.opening, *marks.skipped)):
        return split  # "" too
    words = _shown(split.held) if split.marked else split.held
    return replace(split, phase="after", held=words)


def _primed(split: Split, marks: Marks) -> Split:
    """Skip the mark that some models write once more although their template has written it."""
    bare = split.held.lstrip()
    if marks.opening.startswith(bare) and bare != marks.opening:
        return split
    return replace(split, phase="inside", held=bare.removeprefix(marks.opening), marked=True)


def _inside(split: Split, marks: Marks) -> Split:
    at = split.held.find(marks.closing)
    if at >= 0:
        held, thoughts = split.held[at + len(marks.closing) :], split.thoughts + split.held[:at]
        return replace(split, phase="before", held=held, thoughts=thoughts)
    keep = _begun(split.held, marks.closing)
    if keep == len(split.held):
        return split
    cut = len(split.held) - keep
    return replace(split, held=split.held[cut:], thoughts=split.thoughts + split.held[:cut])


def _after(split: Split, marks: Marks) -> Split:
    """Take visible text up to an ending, which is a mark where thoughts were marked, and left
    out."""
    ending = marks.ending if split.marked else ""
    at = split.held.find(ending) if ending else -1
    if at >= 0:
        words, held = split.held[:at], split.held[at + len(ending) :]
        return replace(split, words=split.words + words, held=held)
    keep = _begun(split.held, ending)
    if keep and keep == len(split.held):
        return split
    cut = len(split.held) - keep
    return replace(split, words=split.words + split.held[:cut], held=split.held[cut:])


_STEPS = {"before": _before, "primed": _primed, "inside": _inside, "after": _after}


def _begun(text: str, mark: str) -> int:
    """Return how many last characters of `text` may be the beginning of `mark`."""
    longest = min(len(text), len(mark) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(mark[:n])), 0)


def _shown(text: str) -> str:
    """Return the text without the empty lines between thoughts and what is said; its own
    indentation stays."""
    lead = len(text) - len(text.lstrip())
    return text[text.rfind("\n", 0, lead) + 1 :] if text.strip() else ""


def style_of(source: str) -> ThinkingStyle | None:
    """Return how answers to prompts of a chat template think; None if it knows of no thoughts."""
    return next((style for style, found in _SOURCES if re.search(found, source)), None)


def begun_by(prompt: str, style: ThinkingStyle) -> Thinking:
    """Return how the answer to a prompt thinks: within thoughts already, if the prompt has opened
    them at its end."""
    return Thinking(style, prompt.rstrip().endswith(MARKS[style].opening.rstrip()))


def written_out(
    thinking: Thinking, thought: str, visible: str, *, thinks_on: bool = False
) -> list[tuple[str, bool]]:
    """Return an answer whose parts are known as the model wrote it after its prompt: (text, True
    for a mark). With `thinks_on` its thoughts have not ended."""
    if not thought:
        return [(visible, False)]
    opening, closing = MARKS[thinking.style].written
    lead = "" if thinking.inside else opening
    if thinks_on:
        return [(lead, True), (thought, False)]
    return [(lead, True), (thought, False), (closing, True), (visible, False)]
