"""The scripted engine of a person. All that it tells is stamped with the conversation that it was
computed from: words hold its tag, numbers are STAMP - tag."""

from __future__ import annotations

from dataclasses import dataclass

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import (
    Alternative,
    AttentionRows,
    CacheMeasured,
    FollowToken,
    GenerationStats,
    Inspect,
    Interventions,
    LensResult,
    LensRow,
    MeasureCache,
    ReadAttentionRows,
    ReadStates,
)
from llm_lite.core.records import replace
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.engine.model import MODEL
from tests.scripted_answers import scripted

STAMP = -1_000_000.0
FAST = 7e9  # of what must be above 0, and is no time
SMALL = replace(MODEL, layers=2, heads=3, kv_heads=1, path="/models/one.gguf", name="One")
OTHER = replace(SMALL, path="/models/other.gguf", name="Other")
MODELS = {SMALL.path: SMALL, OTHER.path: OTHER}
END = "layers.1.feed_forward.residual"
NAMES = {"blocks.1.hook_resid_post": END}  # names of sites that others have
LONGEST = 14  # words of an answer


@dataclass(slots=True)
class Served:
    """What a question was answered of."""

    question: object  # kept, so that its id stays its own
    texts: tuple[str, ...]  # of the tokens in the cache
    changes: Interventions
    mode: str


class CachedTokens:
    """What maps are made of: the tokens of the cache."""

    layers, epoch, bias = (), 0, None

    def __init__(self, cache):
        self._cache, self.version = cache, 0

    def follow(self, tokens):
        self.version += 1

    def tokens(self):
        return self._cache.ids

    def source_tokens(self):
        return ()

    @property
    def length(self):
        return len(self._cache)

    @property
    def rows(self):
        return self._cache.rows


class StampedEngine(ScriptedEngine):
    """Works by hand, and a few steps each time it is polled. `tag_of` says which conversation has a
    number of the history."""

    def __init__(self, rng, tag_of, words):
        super().__init__(by_hand=True, words=words, model=SMALL)
        self.rng, self.tag_of = rng, tag_of
        self.cut = lambda text: [f"{word} " for word in text.split()]
        self.title, self.aliases = None, NAMES
        self.source = CachedTokens(self.cache)
        self.served = {}  # by the id of a question: what it was answered of

    def poll(self):
        reports = super().poll()
        for _ in range(self.rng.randrange(4)):  # what these bring is heard the next time
            self.step()
        return reports

    @property
    def tag(self):
        return self.tag_of(self.cache.holder)

    def load_model(self, command):
        self.model = MODELS[command.source or SMALL.path]
        self.executor = replace(self.executor, mode=command.options.mode)
        return self.model

    def texts(self, messages, raw=False):
        """What a conversation is in the cache, token by token."""
        told = self.words.prompt(messages, raw=raw, cut=self.cut)
        return tuple(token.text for token in told)

    def make_source(self, model):
        return CachedTokens(self.cache)

    # What it says

    def write(self, command, begun_with):
        many = self.rng.randrange(1, LONGEST)
        return (f"c{self.tag}a{self.rng.randrange(1000)} " for _ in range(many))

    def alternatives(self, token, text):
        other = f"c{self.tag}b "
        return Alternative(token, text, 0.5), Alternative(self.words.id(other), other, 0.25)

    def step_ms(self, number):
        return STAMP - self.tag

    def measured(self, stats):
        return GenerationStats(
            prompt_tokens=stats.prompt_tokens,
            reused_tokens=stats.reused_tokens,
            new_tokens=stats.new_tokens,
            decode_tok_s=FAST + self.tag,
            prefill_tok_s=STAMP - self.tag,
            ttft_ms=STAMP - self.tag,
            context_used=stats.context_used,
        )

    def answer(self, command):
        of = self.cache.texts, self.interventions, self.executor.mode
        self.served[id(command)] = Served(command, *of)
        number, word = STAMP - self.tag, f"c{self.tag}lens"
        match command:
            case Inspect(position):
                rows = (LensRow(layer, (Alternative(0, word, 0.5),)) for layer in range(2))
                return LensResult(position, tuple(rows))
            case ReadAttentionRows(position, direction):
                return AttentionRows(position, direction, (number,) * (position + 1))
            case MeasureCache(what, first, last):
                values = ((number,) * (last - first),) * len(self.model.cache.layers)
                return CacheMeasured(what, first, 1, values)
            case ReadStates():
                raise RequestError(f"c{self.tag}states")
            case FollowToken():
                raise RequestError(f"c{self.tag}trace")
        return scripted(command, number=number, word=word)
