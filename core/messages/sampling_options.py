"""The options of the sampler: one table, from which everything that names one is made.

A field of `SamplingOptions` has its row where it stands. The command line, `/commands`, the fields
of requests, what is sent to other servers, the sliders of the window, settings, presets and the
tables of the documentation follow from it. `core.generation.sampling` says in which order the
options act, and where each formula is from.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast

from msgspec import UNSET, Struct, UnsetType, field

from llm_lite.core.records import FieldNotesMeta, FieldWithNotes, replace

Kind = Literal["number", "whole", "flag", "texts", "biases", "text"]
Group = Literal["", "filters", "penalties"]  # of the sampling panel, which folds them
# Where an option has a name: fields of requests, keys of generation_config.json, and keys behind
# "general.sampling." of a GGUF file (llama.cpp, pull request 17120).
Place = Literal[
    "openai", "vllm", "llama-server", "llama-cpp-python", "lm-studio", "generation_config", "gguf"
]
MOST_BIAS = 100.0  # OpenAI's: it bans a token or makes it certain
MOST_BIASES = 1024
MOST_TEXTS = 32
LONGEST_TEXT = 1000  # characters
LONGEST_GRAMMAR = 1 << 16  # characters of a schema or grammar that the window keeps
DRY_BREAKERS = ("\n", ":", '"', "*")
_MOST = 1 << 30  # tokens: more than any context has
_WHOLE = (0, _MOST)
_SPELLED = {"dry": "DRY", "xtc": "XTC", "mirostat": "Mirostat"}
_ROW = "option"
T = TypeVar("T")


class Option(Struct, frozen=True):
    """A row of the table. The name and the default are those of its field."""

    kind: Kind
    help: str  # sentences; the first one says what it does
    name: str = ""
    default: Any = None
    low: float = 0.0
    high: float = 1.0
    off: float | None = None  # the value with which it does nothing
    # What -1 stands for, as llama.cpp, vLLM and KoboldCpp have it: all, no limit, none chosen.
    minus_one: int | UnsetType | None = UNSET
    words: str = ""  # for a sentence, where they are not those of the name
    title: str = ""  # of its control in the window
    slider: tuple[float, float] | None = None  # the useful range; None: the window has no slider
    digits: int = 0  # behind the point, of the slider's value
    logarithmic: bool = False  # the slider's scale
    group: Group = ""
    needs: tuple[str, ...] = ()  # it does nothing while all of these are off
    mirostat_replaces: bool = False
    search: str = ""  # words that find it besides its title
    names: Mapping[Place, str] = field(default_factory=lambda: MappingProxyType({}))
    # A field or key beside it that switches it on, and the value with which it does.
    switches: Mapping[str, tuple[str, int]] = field(default_factory=lambda: MappingProxyType({}))
    always_sent: bool = False  # to other servers, at the default too: theirs may be another one

    @property
    def least(self) -> float:
        """Return the lowest value that a person or a client may give."""
        return self.low if self.minus_one is UNSET else -1

    def meant(self, value: Any) -> Any:
        """Return the value that a person or a client means: what -1 stands for, or itself."""
        is_minus_one = self.minus_one is not UNSET and not isinstance(value, bool) and value == -1
        return self.minus_one if is_minus_one else value

    @property
    def readable_name(self) -> str:
        """Return the name as an error sentence has it."""
        if self.words:
            return self.words
        first, *rest = self.name.split("_")
        words = " ".join((_SPELLED.get(first, first), *rest))
        return words[:-2] + words[-2:].replace(" ", "-")  # top-k

    @property
    def word(self) -> str:
        """Return the name as the command line has it."""
        return self.name.replace("_", "-")

    @property
    def summary(self) -> str:
        """Return the first sentence of the help, without its period."""
        return self.help.partition(". ")[0].removesuffix(".")


def option(
    default: T,
    help: str,
    limits: tuple[float, float] = (0.0, 1.0),
    *,
    kind: Kind | None = None,
    same: tuple[Place, ...] = (),
    names: Mapping[Place, str] | None = None,
    **row: Any,
) -> T:
    """Return a field with its row. `limits` are those of the sampler. `same` are the places that
    have our name for it, `names` the others. Without a `kind` it is that of the default."""
    kinds: dict[type, Kind] = {bool: "flag", int: "whole", float: "number", str: "text"}
    low, high = limits
    known = dict.fromkeys(same, "") | dict(names or {})
    made = Option(kind or kinds[type(default)], help, low=low, high=high, names=known, **row)
    return cast(T, FieldWithNotes({_ROW: made}, default=default))


def mark(text: str) -> str:
    """Return the text, which the window translates where it draws it."""
    return text


class SamplingOptions(Struct, frozen=True, metaclass=FieldNotesMeta):
    """The options by which the next token is chosen, and the answer ended.

    Temperature 0 is greedy: of what changes the choice, only mask, biases and penalties count then.
    """

    temperature: float = option(
        0.4,
        mark(
            "How far the choice strays from the likeliest token, which 0 always takes. Below 1 the "
            "likely tokens become likelier and the text calmer; above 1 rare tokens come up and "
            "the text wanders."
        ),
        (0.0, 100.0),
        title=mark("Temperature"),
        slider=(0.05, 2.0),
        digits=2,
        search="creativity randomness",
        same=("openai", "generation_config"),
        names={"gguf": "temp"},
        always_sent=True,
    )
    top_k: int = option(
        40,
        mark("Only the k likeliest tokens may be chosen. 0 lets all of them in."),
        _WHOLE,
        off=0,
        minus_one=0,
        title=mark("Top-k"),
        group="filters",
        slider=(0, 200),
        mirostat_replaces=True,
        same=(
            *("vllm", "llama-server", "llama-cpp-python", "lm-studio"),
            *("generation_config", "gguf"),
        ),
        always_sent=True,
    )
    top_p: float = option(
        0.9,
        mark(
            "Only the likeliest tokens whose probabilities add up to p may be chosen. These are "
            "few where the model is sure, many where it is not. 1 allows all tokens."
        ),
        off=1,
        title=mark("Top-p"),
        group="filters",
        slider=(0.05, 1.0),
        digits=2,
        mirostat_replaces=True,
        search="nucleus",
        same=("openai", "generation_config", "gguf"),
        always_sent=True,
    )
    min_p: float = option(
        0.05,
        mark(
            "A token must be at least this fraction as likely as the likeliest one. 0 lets all in."
        ),
        off=0,
        title=mark("Min-p"),
        group="filters",
        slider=(0.0, 0.5),
        digits=2,
        mirostat_replaces=True,
        same=("vllm", "llama-server", "llama-cpp-python", "generation_config", "gguf"),
        always_sent=True,
    )
    typical_p: float = option(
        1.0,
        mark(
            "Only tokens about as surprising as the model expects may be chosen, until they add up "
            "to p. The too obvious goes as well as the too odd. 1 lets all of them in."
        ),
        off=1,
        title=mark("Typical-p"),
        group="filters",
        slider=(0.05, 1.0),
        digits=2,
        mirostat_replaces=True,
        same=("llama-server", "generation_config"),
    )
    xtc_probability: float = option(
        0.0,
        mark(
            "How often the obvious choices are taken away. Of all tokens above the threshold, only "
            "the least likely stays. The text becomes less predictable and stays sensible. 0 is "
            "off."
        ),
        off=0,
        title=mark("XTC probability"),
        group="filters",
        slider=(0.0, 1.0),
        digits=2,
        mirostat_replaces=True,
        same=("llama-server", "gguf"),
    )
    xtc_threshold: float = option(  # above 0.5 nothing is taken away
        0.1,
        mark("How likely a token must be to count as an obvious choice."),
        title=mark("XTC threshold"),
        group="filters",
        slider=(0.01, 0.5),
        digits=2,
        needs=("xtc_probability",),
        same=("llama-server", "gguf"),
    )
    mirostat_tau: float = option(
        0.0,
        mark(
            "The entropy that Mirostat 2 holds the text at, in bits a token; around 5 is usual. It "
            "replaces the other filters. 0 is off."
        ),
        (0.0, 100.0),
        off=0,
        title=mark("Mirostat tau"),
        group="filters",
        slider=(0.0, 10.0),
        digits=1,
        same=("llama-server", "llama-cpp-python", "gguf"),
        switches={
            "llama-server": ("mirostat", 2),
            "llama-cpp-python": ("mirostat_mode", 2),
            "gguf": ("mirostat", 2),  # 1 is another algorithm, 0 none
        },
    )
    mirostat_eta: float = option(
        0.1,
        mark("How fast Mirostat corrects itself: its learning rate."),
        title=mark("Mirostat eta"),
        group="filters",
        slider=(0.01, 1.0),
        digits=2,
        needs=("mirostat_tau",),
        same=("llama-server", "llama-cpp-python", "gguf"),
        switches={"gguf": ("mirostat", 2)},
    )
    repetition_penalty: float = option(
        1.0,
        mark(
            "Tokens that were said lately become less likely. 1 is off; much above 1.2 the model "
            "avoids even the words it needs."
        ),
        (0.01, 100.0),
        off=1,
        title=mark("Repetition penalty"),
        group="penalties",
        slider=(1.0, 1.5),
        digits=2,
        same=("vllm", "generation_config"),
        names={
            "llama-server": "repeat_penalty",
            "llama-cpp-python": "repeat_penalty",
            "lm-studio": "repeat_penalty",
            "gguf": "penalty_repeat",
        },
    )
    presence_penalty: float = option(
        0.0,
        mark(
            "A token that was said lately loses this much, however often it was said. New subjects "
            "come up. 0 is off."
        ),
        (-100.0, 100.0),
        off=0,
        title=mark("Presence penalty"),
        group="penalties",
        slider=(0.0, 2.0),
        digits=2,
        same=("openai",),
    )
    frequency_penalty: float = option(
        0.0,
        mark(
            "A token loses this much each time it was said lately. Words that come often become "
            "rare. 0 is off."
        ),
        (-100.0, 100.0),
        off=0,
        title=mark("Frequency penalty"),
        group="penalties",
        slider=(0.0, 2.0),
        digits=2,
        same=("openai",),
    )
    penalty_window: int = option(
        64,
        mark("How many last tokens these three penalties look at."),
        _WHOLE,
        minus_one=_MOST,
        title=mark("Last tokens"),
        group="penalties",
        slider=(1, 1024),
        needs=("repetition_penalty", "presence_penalty", "frequency_penalty"),
        names={"llama-server": "repeat_last_n", "gguf": "penalty_last_n"},
        always_sent=True,
    )
    dry_multiplier: float = option(
        0.0,
        mark(
            "Makes loops less likely. A token that would go on with a repeat of what was said "
            "before loses more, the longer the repeat is. Single words may come again. 0.8 is "
            "usual; 0 is off."
        ),
        (0.0, 100.0),
        off=0,
        title=mark("DRY"),
        group="penalties",
        slider=(0.0, 2.0),
        digits=2,
        search="repetition",
        same=("llama-server",),
    )
    dry_base: float = option(
        1.75,
        mark("How fast DRY's penalty grows with the length of the repeat."),
        (1.0, 100.0),
        title=mark("DRY base"),
        group="penalties",
        slider=(1.0, 3.0),
        digits=2,
        needs=("dry_multiplier",),
        same=("llama-server",),
    )
    dry_allowed_length: int = option(
        2,
        mark("Repeats of up to so many tokens cost nothing."),
        (1, _MOST),
        title=mark("DRY allowed length"),
        group="penalties",
        slider=(1, 20),
        needs=("dry_multiplier",),
        same=("llama-server",),
    )
    dry_window: int = option(
        1024,
        "How many last tokens DRY searches for repeats.",
        _WHOLE,
        minus_one=_MOST,
        needs=("dry_multiplier",),
        names={"llama-server": "dry_penalty_last_n"},
    )
    dry_breakers: tuple[str, ...] = option(
        DRY_BREAKERS,
        "Repeats do not reach across these texts.",
        kind="texts",
        words="DRY's sequence breakers",
        needs=("dry_multiplier",),
        names={"llama-server": "dry_sequence_breakers"},
    )
    max_new_tokens: int = option(
        1024,
        mark("The answer ends after this many tokens; it can be continued."),
        (1, _MOST),
        minus_one=_MOST,
        title=mark("Max tokens"),
        slider=(16, 8192),
        logarithmic=True,
        search="max tokens length",
        names={"openai": "max_tokens"},
        always_sent=True,
    )
    max_thinking_tokens: int = option(
        0,
        mark(
            "The thought is ended after so many tokens, and the answer begins. 0 lets it think as "
            "long as it likes."
        ),
        _WHOLE,
        off=0,
        minus_one=0,
        title=mark("Max thinking tokens"),
        slider=(0, 4096),
    )
    seed: int | None = option(  # None: a new one each time
        None,
        mark("The start of the random numbers. The same seed gives the same answer again."),
        (0, (1 << 64) - 1),
        kind="whole",
        minus_one=None,
        title=mark("Fixed seed"),
        search="random",
        same=("openai",),
    )
    repetition_guard: bool = option(
        True,
        mark(
            "An answer that says the same again and again, without an end, is ended. Code, tables, "
            "lists of numbers and refrains go on."
        ),
        title=mark("End repetition"),
        always_sent=True,
    )
    stop: tuple[str, ...] = option(
        (),
        mark("The answer ends before the first of these."),
        kind="texts",
        words="stop strings",
        title=mark("Stop strings"),
        same=("openai",),
    )
    logit_bias: tuple[tuple[int, float], ...] = option(  # token id, what is added to its logit
        (),
        mark("Makes a token more or less likely: what is added to its logit. -100 bans it."),
        (-MOST_BIAS, MOST_BIAS),
        kind="biases",
        title=mark("Logit bias"),
        same=("openai",),
    )
    json_schema: str = option(
        "",
        mark(
            "The answer is JSON of this schema: tokens that do not fit are never chosen. Thoughts "
            "stay free."
        ),
        title=mark("JSON schema"),
        names={"openai": "response_format"},
    )
    grammar: str = option(  # at most one of the two
        "",
        mark("The answer is a text of this grammar, in GBNF (llama.cpp) or Lark."),
        title=mark("Grammar"),
        same=("llama-server", "llama-cpp-python"),
    )


def _named(name: str, row: Option, default: Any) -> Option:
    names = MappingProxyType({place: other or name for place, other in row.names.items()})
    return replace(row, name=name, default=default, names=names)


_FIRST = SamplingOptions()
OPTIONS: Mapping[str, Option] = MappingProxyType(
    {
        name: _named(name, notes[_ROW], getattr(_FIRST, name))
        for name, notes in SamplingOptions.notes.items()
    }
)
NUMBERS: Mapping[str, Option] = MappingProxyType(  # options with a range
    {name: row for name, row in OPTIONS.items() if row.kind in ("number", "whole")}
)


def names_in(place: Place) -> Mapping[str, str]:
    """Return what options are called there, by their own names."""
    return {name: row.names[place] for name, row in OPTIONS.items() if place in row.names}
