"""Between rows of the database and the dataclasses of `records`.

What a row holds is not trusted: another version of the program may have written it, and a file may
be damaged. A value of another kind becomes the field's default.
"""

from __future__ import annotations

import json
import math
import sys
from array import array
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar, get_args

from llm_lite.core.history.records import (
    STORED_ROLES,
    TITLE_SOURCES,
    AnswerEnd,
    AnswerRun,
    ConversationSummary,
    ModelIdentity,
    StoredMessage,
    StoredRole,
    TitleSource,
)
from llm_lite.core.messages import Gains, GenerationStats, SamplingOptions, StopReason

SUMMARY = (
    "id, title, title_source, created, updated, pinned, archived, deleted, system_prompt, selected"
)
MESSAGE = (
    "id, conversation, parent, role, text, thought, tokens, created, finished, selected, based_on, "
    "kept_tokens"
)
ANSWER = (
    "message, model, model_path, model_bytes, model_modified, model_fingerprint, run, stop_reason, "
    "problem, seconds, stats"
)
ATTACHMENT = "message, place, name, text, tokens"
CACHE = "id, conversation, message, file, bytes, model, created, used"

STOP_REASONS: tuple[StopReason, ...] = get_args(StopReason)
_RUN_TEXTS = ("mode", "activations", "keys", "values", "backend", "device")
_Numbers = TypeVar("_Numbers", SamplingOptions, GenerationStats)


def marks(columns: str) -> str:
    """A question mark for each column."""
    return ", ".join("?" * (columns.count(",") + 1))


def storable(text: str) -> str:
    """Half a surrogate pair is no character, and no encoder takes it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def tokens_to_blob(tokens: tuple[int, ...]) -> bytes:
    """Unsigned 32-bit, little-endian."""
    numbers = array("I", tokens)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def tokens_from_blob(blob: bytes) -> tuple[int, ...]:
    numbers = array("I")
    numbers.frombytes(blob[: len(blob) // 4 * 4])
    if sys.byteorder == "big":
        numbers.byteswap()
    return tuple(numbers)


def summary_row(summary: ConversationSummary) -> tuple[object, ...]:
    s = summary
    title, prompt = storable(s.title), storable(s.system_prompt)
    kept = (s.created, s.updated, s.pinned, s.archived, s.deleted, prompt, s.selected)
    return (s.id, title, s.title_source, *kept)


def summary_of(row: tuple[Any, ...]) -> ConversationSummary:
    number, title, source, created, updated, pinned, archived, deleted, prompt, selected = row
    known: TitleSource = next((name for name in TITLE_SOURCES if name == source), "none")
    return ConversationSummary(
        number,
        title,
        known,
        created,
        updated,
        bool(pinned),
        bool(archived),
        deleted,
        prompt,
        selected,
    )


def message_row(m: StoredMessage) -> tuple[object, ...]:
    said = (storable(m.text), storable(m.thought), tokens_to_blob(m.tokens))
    rest = (m.created, m.finished, m.selected, m.based_on, m.kept_tokens)
    return (m.id, m.conversation, m.parent, m.role, *said, *rest)


def message_of(row: tuple[Any, ...], **more: Any) -> StoredMessage:
    """`more` are the fields that other tables hold."""
    number, conversation, parent, role, text, thought, tokens, created, finished, *rest = row
    known: StoredRole = next((name for name in STORED_ROLES if name == role), "user")
    ids = tokens_from_blob(tokens) if tokens else ()
    return StoredMessage(
        number,
        conversation,
        parent,
        known,
        text,
        thought,
        ids,
        created,
        bool(finished),
        *rest,
        **more,
    )


def answer_row(message: StoredMessage) -> tuple[object, ...] | None:
    """None for what no model said."""
    run, end = message.run, message.end
    if run is None and end is None:
        return None
    model = run.model if run else ModelIdentity()
    file = (storable(model.name), storable(model.path), model.bytes, model.modified)
    return (message.id, *file, model.fingerprint, run_to_json(run), *end_row(end or AnswerEnd()))


def end_row(end: AnswerEnd) -> tuple[object, ...]:
    stats = json.dumps(asdict(end.stats)) if end.stats else None
    return (end.stop_reason, storable(end.problem), end.seconds, stats)


def answer_of(row: tuple[Any, ...]) -> tuple[AnswerRun | None, AnswerEnd | None]:
    _, name, path, size, modified, fingerprint, run, reason, problem, seconds, stats = row
    model = ModelIdentity(name, path, size, modified, fingerprint)
    known = stop_reason(reason)
    measured = from_mapping(GenerationStats, _object(stats)) if stats else None
    end = AnswerEnd(known, measured, problem, seconds)
    return run_from_json(run, model), None if end == AnswerEnd() else end


def stop_reason(word: object) -> StopReason | None:
    """None for a word that is none."""
    return next((known for known in STOP_REASONS if known == word), None)


def run_to_json(run: AnswerRun | None) -> str | None:
    """All but the model, which has columns."""
    if run is None:
        return None
    kept: dict[str, object] = {name: getattr(run, name) for name in _RUN_TEXTS}
    kept |= {"threads": run.threads, "thinking": run.thinking, "gains": run.gains}
    kept["sampling"] = asdict(run.sampling) if run.sampling else None
    return json.dumps({name: value for name, value in kept.items() if value is not None})


def run_from_json(text: str | None, model: ModelIdentity) -> AnswerRun | None:
    return None if text is None else run_from_mapping(_object(text), model)


def run_from_mapping(kept: Mapping[str, Any], model: ModelIdentity) -> AnswerRun:
    texts = {name: storable(kept[name]) for name in _RUN_TEXTS if isinstance(kept.get(name), str)}
    sampling, threads = kept.get("sampling"), kept.get("threads")
    return AnswerRun(
        model,
        **texts,
        threads=threads if type(threads) is int else 0,
        sampling=from_mapping(SamplingOptions, sampling) if isinstance(sampling, dict) else None,
        gains=_gains(kept.get("gains")),
        thinking=kept.get("thinking") is not False,
    )


def from_mapping(kind: type[_Numbers], kept: Mapping[str, Any]) -> _Numbers:
    """A dataclass of numbers from what is known by name and is a number of its field's kind."""
    usable: dict[str, Any] = {}
    for place in fields(kind):
        value = kept.get(place.name)
        whole = place.type in ("int", "int | None")
        if type(value) is int and (not whole or abs(value) < 1 << 64):
            usable[place.name] = value if whole else float(value)
        elif type(value) is float and not whole and math.isfinite(value):
            usable[place.name] = value
    return kind(**usable)


def _gains(value: object) -> Gains | None:
    """[layers][heads], all finite numbers; else none."""
    if not isinstance(value, list) or not all(isinstance(row, list) for row in value):
        return None
    if not all(_is_number(gain) for row in value for gain in row):
        return None
    return tuple(tuple(float(gain) for gain in row) for row in value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and math.isfinite(value)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
