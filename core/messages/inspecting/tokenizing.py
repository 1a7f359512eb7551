"""A text on its way to token ids, stage by stage: what a tokenizer does at each step.

Spans are of characters (Unicode code points) of the text that was given. Tokens and symbols are
spelled as the vocabulary spells them: "Ġthe", "▁the", "##ing", "<0xE2>".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from llm_lite.core.messages.answers import ChatMessage
from llm_lite.core.messages.kinds import Command, Event, StepRequest
from llm_lite.core.messages.tools import ToolSpec

TokenizerKind = Literal["BPE", "Unigram", "WordPiece", "WordLevel"]
MOST_CHARACTERS = 20_000  # of a text whose stages are shown; of a longer one its beginning
MOST_STEPPED = 4_000  # characters from the beginning, of whose words each step is shown


class Merge(Struct, frozen=True):
    """Two neighbouring pieces become one."""

    at: int  # index of the left piece, among those before this merge
    rank: float  # what the pair is chosen by: the lowest of all pairs at that moment
    made: str  # the piece that they become
    left: float | None  # rank of the new piece with its left neighbour; None: they never merge
    right: float | None  # the same with its right neighbour


class MergeSteps(Struct, frozen=True):
    """Byte-pair encoding of a word: what it begins with, and its merges in their order.

    Ranks of pairs are places in the list of merges; where `scored`, pairs are ranked by the score
    of the token that they become, and ranks are scores with the sign turned.
    """

    symbols: tuple[str, ...]
    ranks: tuple[float | None, ...]  # of neighbouring symbols, one fewer than these
    merges: tuple[Merge, ...]
    scored: bool = False
    whole: bool = False  # the whole word is a token, and the tokenizer takes it without merging

    @property
    def count(self) -> int:
        return len(self.merges)


class Edge(Struct, frozen=True):
    """A token that would fit characters start..end-1 of a word."""

    start: int
    end: int
    token: str
    id: int | None  # None: no token fits, the character is unknown
    score: float  # natural logarithm of its probability


class Lattice(Struct, frozen=True):
    """All ways to cut a word into tokens of a Unigram model, and the likeliest (Viterbi)."""

    edges: tuple[Edge, ...]  # by start, then end
    best: tuple[int, ...]  # indices of the edges of the best path, from left to right
    totals: tuple[float | None, ...]  # best sum of scores up to each character; None: no way there

    @property
    def count(self) -> int:
        """Return the number of steps: one for each place, and one back along the best path."""
        return len(self.totals)


class LongestMatch(Struct, frozen=True):
    """The longest token at character `start`; the search begins with all that is left."""

    start: int
    end: int | None  # None: nothing fits, and the whole word is unknown


class LongestMatches(Struct, frozen=True):
    """WordPiece: at each place the longest token that fits is taken."""

    matches: tuple[LongestMatch, ...]
    prefix: str  # of tokens that do not begin a word: "##"
    too_long: bool = False  # more characters than the tokenizer takes: unknown without a search
    characters: int = 0  # of the word

    @property
    def tries(self) -> tuple[tuple[int, int, bool], ...]:
        """Return all lookups in order: start, end, and True if it is a token."""
        found = []
        for match in self.matches:
            last = match.end or match.start + 1
            ends = range(self.characters, last - 1, -1)
            found += [(match.start, end, end == match.end) for end in ends]
        return tuple(found)

    @property
    def count(self) -> int:
        """Return the steps: one for each candidate that is looked up."""
        ends = (match.end or match.start + 1 for match in self.matches)
        return sum(self.characters - end + 1 for end in ends)


Steps = MergeSteps | Lattice | LongestMatches


class TokenPiece(Struct, frozen=True):
    """A token of the result, with its place in the text."""

    token: str
    id: int
    start: int
    end: int
    data: bytes = b""  # what it stands for


class Word(Struct, frozen=True):
    """A pre-token: tokens never reach over its ends. `marked`: a token that the tokenizer finds in
    the text before everything else, as <|im_end|>; then it is the only piece."""

    start: int
    end: int
    spelled: str  # in the characters of the vocabulary
    pieces: tuple[TokenPiece, ...]
    steps: Steps | None = None  # None: not shown
    marked: bool = False
    control: bool = False  # marked, and steers the model


class TokenizedText(Struct, frozen=True):
    """All stages of a text."""

    tokenizer: str  # its name
    kind: TokenizerKind
    text: str  # as it was given, or as the chat template wrote it
    characters: int  # of the whole text, also where only its beginning is shown
    normalized: str
    normalizers: tuple[str, ...]  # names of what changes the text first: "NFC", "Lowercase"
    words: tuple[Word, ...]
    tokens: int  # of the whole text
    vocabulary: int
    of_bytes: bool = False  # symbols are bytes, each spelled as a printable character
    before: tuple[TokenPiece, ...] = ()  # added before the text: <s>, [CLS]
    after: tuple[TokenPiece, ...] = ()
    own_words: bool = False  # it cuts no words; these end where no merge reaches across
    typed: tuple[
        tuple[int, int], ...
    ] = ()  # of a chat: what messages say; the rest is the template

    @property
    def pieces(self) -> tuple[TokenPiece, ...]:
        inside = (piece for word in self.words for piece in word.pieces)
        return (*self.before, *inside, *self.after)


class TokenizeText(Command, frozen=True):
    """Ask for a TextTokenized. `source`: a path or name of a model, or of a tokenizer.json; "" is
    the model in use. With `messages` the text is what its chat template makes of them. Answered by
    a thread of its own, also while an answer is written; a later request with the same `slot` takes
    the place of one that still waits."""

    text: str = ""
    source: str = ""
    slot: int = 0
    messages: tuple[ChatMessage, ...] | None = None
    thinking: bool = True  # what the template's switch for thoughts is set to
    tools: tuple[ToolSpec, ...] = ()  # functions that the template is given
    control: bool = False  # names of control tokens in the text count as these
    samples: tuple[str, ...] = ()  # also count the tokens of each
    values: Mapping[str, Any] = field(default_factory=dict)  # as in `Generate`


class TextTokenized(Event, frozen=True):
    result: TokenizedText
    samples: tuple[int, ...] = ()  # tokens of each


class CountTokens(StepRequest, frozen=True):
    """Count each of `texts`. With `most`, in tokens, also say how much of each would fit.
    `messages` are counted together, as `Read` brings them into the cache."""

    texts: tuple[str, ...] = ()
    most: tuple[int, ...] = ()
    messages: tuple[ChatMessage, ...] = ()
    thinking: bool = True
    tools: tuple[ToolSpec, ...] = ()
    raw: bool = False  # as in `Generate`
    values: Mapping[str, Any] = field(default_factory=dict)  # as in `Generate`


class TokensCounted(Event, frozen=True):
    tokens: tuple[int, ...] = ()  # of each text; where it was cut, of what is left
    kept: tuple[int, ...] = ()  # of each text, the first characters that fit
    conversation: int | None = None  # tokens of the messages; None: not asked, or not known
    about: bool = False  # that is an estimate: they are far more than the context holds
    ids: tuple[int, ...] | None = None  # of the conversation's tokens; None: not known
