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
_SHOWN = re.compile(r"\S")
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
    blank: int = 0  # so many first characters of it are known to be whitespace
    marked: bool = False  # some mark was found
    has_thought: bool = False  # thoughts are more than whitespace
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
        return _Reading(self, text).split()

    def ended(self) -> Split:
        """Return the split with what was held back, as nothing follows."""
        return replace(self, is_ended=True)


class _Reading:
    """A reading of more of an answer, from left to right: no character is looked at again."""

    def __init__(self, split: Split, text: str) -> None:
        self._before, self._more = split, text
        self._marks = MARKS[split.thinking.style]
        self._text, self._at = split.held + text, 0
        self._blank = split.blank  # what is known to be whitespace ends here
        self._phase, self._marked = split.phase, split.marked
        self._thoughts, self._words = [split.thoughts], [split.words]
        self._has_thought = split.has_thought

    def split(self) -> Split:
        """Return the split behind all that can be told apart yet."""
        steps = {
            "before": self._read_before,
            "primed": self._read_primed,
            "inside": self._read_inside,
            "after": self._read_after,
        }
        while self._at < len(self._text) and steps[self._phase]():
            pass
        return replace(
            self._before,
            raw=self._before.raw + self._more,
            phase=self._phase,
            thoughts="".join(self._thoughts),
            words="".join(self._words),
            held=self._text[self._at :] if self._at else self._text,
            blank=max(self._blank - self._at, 0),
            marked=self._marked,
            has_thought=self._has_thought,
            is_ended=False,
        )

    def _shown_at(self) -> int:
        """Return where the text begins behind whitespace."""
        found = _SHOWN.search(self._text, max(self._at, self._blank))
        self._blank = found.start() if found else len(self._text)
        return self._blank

    def _read_before(self) -> bool:
        """Read a mark, or find that what is said begins; False where that is not known yet."""
        first, marks = self._shown_at(), (self._marks.opening, *self._marks.skipped)
        for mark in marks:
            if self._text.startswith(mark, first):
                if mark == self._marks.opening:
                    self._phase = "inside"
                    if self._has_thought:
                        self._thoughts.append("\n\n")
                self._at, self._marked = first + len(mark), True
                return True
        if self._may_become(first, marks):
            return False
        if self._marked:  # the empty lines before are none of what is said, its indentation is
            self._at = max(self._at, self._text.rfind("\n", self._at, first) + 1)
        self._phase = "after"
        return True

    def _may_become(self, first: int, marks: tuple[str, ...]) -> bool:
        """Return True if all that is left from `first` on may be the beginning of a mark."""
        size = len(self._text) - first
        return any(size <= len(mark) and self._text.endswith(mark[:size]) for mark in marks)

    def _read_primed(self) -> bool:
        """Skip the mark that some models write once more although their template has written it."""
        first, opening = self._shown_at(), self._marks.opening
        if len(self._text) - first < len(opening) and self._may_become(first, (opening,)):
            return False
        written = self._text.startswith(opening, first)
        self._at = first + len(opening) if written else first
        self._phase, self._marked = "inside", True
        return True

    def _read_inside(self) -> bool:
        """Read thoughts up to their closing mark."""
        is_over = self._read_up_to(self._marks.closing, self._thoughts)
        if not self._has_thought:
            self._has_thought = _SHOWN.search(self._thoughts[-1]) is not None
        self._phase = "before" if is_over else "inside"
        return is_over

    def _read_after(self) -> bool:
        """Read visible text up to an ending, which is a mark where thoughts were marked, and left
        out."""
        return self._read_up_to(self._marks.ending if self._marked else "", self._words)

    def _read_up_to(self, mark: str, pieces: list[str]) -> bool:
        """Read text into `pieces`, and the mark; False where it has not come."""
        found = self._text.find(mark, self._at) if mark else -1
        end = found if found >= 0 else len(self._text) - _begun(self._text, mark, self._at)
        pieces.append(self._text[self._at : end])
        self._at = end + len(mark) if found >= 0 else end
        return found >= 0


def _begun(text: str, mark: str, first: int = 0) -> int:
    """Return how many last characters of `text` may be the beginning of `mark`; those before
    `first` are none."""
    longest = min(len(text) - first, len(mark) - 1)
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
