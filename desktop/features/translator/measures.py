"""What the status bar and the performance view tell of an encoder-decoder: how fast the source was
read and the target written."""

from __future__ import annotations

from llm_lite.core.messages import TranslationStats
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import milliseconds, rate, tokens

SOURCE_HINT = mark("How fast the encoder read the source.")
TARGET_HINT = mark("How fast the decoder wrote the target: tokens of its best hypothesis.")
STEP_HINT = mark("Of the decoder, for one token of each hypothesis.")
FULL_HINT = mark("Tokens of the target in the decoder's cache, of those that fit.")


def source_rate(stats: TranslationStats) -> float:
    """Tokens a second; 0 where nothing was read."""
    return 1e3 * stats.source_tokens / stats.encode_ms if stats.encode_ms > 0 else 0.0


def target_measures(state: AppState) -> list[tuple[str, str, str]]:
    """Name, shown text and what it means, from left to right."""
    result = state.translating.result
    stats = result.stats if result is not None else TranslationStats()
    used, whole = state.context_used, state.model.context if state.model else 0
    return [
        ("source", tr("Source {speed}").format(speed=_speed(source_rate(stats))), tr(SOURCE_HINT)),
        ("target", tr("Target {speed}").format(speed=_speed(stats.tokens_per_s)), tr(TARGET_HINT)),
        ("context", f"{used:,} / {whole:,}", tr(FULL_HINT)),
    ]


def target_facts(stats: TranslationStats) -> list[tuple[str, str, str]]:
    """Of the last target: what was read and written, how fast, and with how many hypotheses."""
    pace = tr("{tokens} at {rate} tok/s")
    read = pace.format(tokens=tokens(stats.source_tokens), rate=rate(source_rate(stats)))
    wrote = pace.format(tokens=tokens(stats.new_tokens), rate=rate(stats.tokens_per_s))
    each = stats.decode_ms / stats.new_tokens if stats.new_tokens else 0.0
    return [
        (tr("Source"), read, tr(SOURCE_HINT)),
        (tr("Target"), wrote, tr(TARGET_HINT)),
        (tr("Hypotheses"), f"{stats.beams:,}", tr("They share each step of the decoder.")),
        (tr("A step"), milliseconds(each / 1e3), tr(STEP_HINT)),
    ]


def _speed(tokens_per_second: float) -> str:
    return f"{rate(tokens_per_second)} tok/s" if tokens_per_second > 0 else "–"
