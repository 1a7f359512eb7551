"""An encoder-decoder without weights: its target is the source's words, the last one first."""

from __future__ import annotations

from llm_lite.core.messages import (
    Alternative,
    CacheStatus,
    Event,
    ModelInfo,
    OtherTarget,
    SourceRead,
    SourceToken,
    TargetFinished,
    TargetGrown,
    TargetToken,
    Translate,
    TranslationStats,
    TranslatorInfo,
)
from llm_lite.core.records import replace

TASK = "translate English to German: "
LAYERS, ENCODER_LAYERS, HEADS = 3, 2, 4


def as_translator(model: ModelInfo, **changes: object) -> ModelInfo:
    known = TranslatorInfo(1, (TASK,), ENCODER_LAYERS)
    translator = replace(known, **changes)  # type: ignore[arg-type]
    return replace(
        model, name="tiny-t5", translator=translator, layers=LAYERS,
        heads=HEADS, kv_heads=HEADS, context=64,
    )  # fmt: skip


def source_read(command: Translate) -> SourceRead:
    words = tuple(SourceToken(9 + len(word), f" {word}") for word in command.source.split())
    return SourceRead((*words, SourceToken(1, "</s>", True)), "<pad>")


def words_of(command: Translate) -> tuple[str, ...]:
    return (*(f" {word}" for word in reversed(command.source.split())), "</s>")


def grown(command: Translate, count: int) -> TargetGrown:
    texts = words_of(command)[:count]
    return TargetGrown(tuple(range(20, 20 + len(texts))), texts)


def finished(command: Translate, **changes: object) -> TargetFinished:
    texts = words_of(command)
    best = (Alternative(20, "a", 0.6), Alternative(21, "b", 0.2))
    tokens = tuple(TargetToken(20 + i, text, 0.6, best) for i, text in enumerate(texts))
    tokens = (*tokens[:-1], replace(tokens[-1], special=True))
    beams = command.beams or 1
    others = tuple(
        OtherTarget(f"another {n}", -1.0 - n, tokens[n : n + 2]) for n in range(beams - 1)
    )
    stats = TranslationStats(len(texts), len(texts), beams, 200, 2.0, 5.0, 1e3 * len(texts) / 5.0)
    text = "".join(texts[:-1]).strip()
    told = TargetFinished(tokens, text, -0.5, others, stats)
    return replace(told, **changes)  # type: ignore[arg-type]


def held(length: int) -> CacheStatus:
    """So many positions in the decoder's cache."""
    return CacheStatus(length, 64, 0, 0, 0, (), 0)


def whole(command: Translate) -> tuple[Event, ...]:
    """All that the engine says of it."""
    count = len(words_of(command))
    steps = tuple(grown(command, n + 1) for n in range(count))
    return (source_read(command), *steps, finished(command), held(count))
