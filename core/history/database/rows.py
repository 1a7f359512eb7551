"""Between rows of the database and the records of `core.history.records`.

What a row holds is not trusted: another version of the program may have written it, and a file may
be damaged. A value of another kind becomes the field's default.
"""

from __future__ import annotations

import json
import math
import sqlite3
import struct
import sys
from array import array
from collections.abc import Mapping
from typing import Any, TypeVar, get_args

import msgspec

from llm_lite.core.attached_text import (
    ATTACHMENT_KINDS,
    Attachment,
    ConversationExtras,
    DraftedFile,
    kind_of_text,
)
from llm_lite.core.checked import fitting
from llm_lite.core.history.records import (
    STORED_ROLES,
    TITLE_SOURCES,
    AnswerEnd,
    ConversationSummary,
    StoredMessage,
    StoredRole,
    TitleSource,
)
from llm_lite.core.messages import (
    AnswerRun,
    Gains,
    GenerationStats,
    ModelIdentity,
    ModelInterventions,
    SamplingOptions,
    StopReason,
)
from llm_lite.core.messages.gains import from_old_gains
from llm_lite.core.messages.interventions import NO_CHANGES, Interventions
from llm_lite.core.records import asdict, replace

SUMMARY = (
    "id, title, title_source, created, updated, pinned, archived, deleted, system_prompt, selected"
)
MESSAGE = (
    "id, conversation, parent, role, text, thought, tokens, created, finished, selected, based_on, "
    "kept_tokens, likelihoods"
)
ANSWER = (
    "message, model, model_path, model_bytes, model_modified, model_fingerprint, run, stop_reason, "
    "problem, seconds, stats"
)
_FIRST_ATTACHMENT = "message, place, name, text, tokens"
ATTACHMENT = f"{_FIRST_ATTACHMENT}, kind, whole"
CACHE = "id, conversation, message, file, bytes, model, created, used"
EXTRAS = "conversation, gains, draft, files, interventions"

STOP_REASONS: tuple[StopReason, ...] = get_args(StopReason)
_RUN_TEXTS = ("mode", "activations", "keys", "values", "backend", "device", "tools")
_Kept = TypeVar("_Kept", bound=msgspec.Struct)


def marks(columns: str) -> str:
    """Return a question mark for each column."""
    return ", ".join("?" * (columns.count(",") + 1))


def storable(text: str) -> str:
    """Return the text without half surrogate pairs, which are no characters, and no encoder takes
    them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def tokens_to_blob(tokens: tuple[int, ...]) -> bytes:
    """Return tokens as unsigned 32-bit integers, little-endian."""
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


def likelihoods_to_blob(likelihoods: tuple[float, ...]) -> bytes:
    """Return likelihoods as 16-bit floats, little-endian: three digits of a probability."""
    return struct.pack(f"<{len(likelihoods)}e", *likelihoods)


def likelihoods_from_blob(blob: object) -> tuple[float, ...]:
    """Return likelihoods; an invalid one counts as not known."""
    if not isinstance(blob, bytes):
        return ()
    found = struct.unpack(f"<{len(blob) // 2}e", blob[: len(blob) // 2 * 2])
    return tuple(p if 0.0 <= p <= 1.0 else -1.0 for p in found)


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
    content = (storable(m.text), storable(m.thought), tokens_to_blob(m.tokens))
    rest = (m.created, m.finished, m.selected, m.based_on, m.kept_tokens)
    odds = likelihoods_to_blob(m.likelihoods)
    return (m.id, m.conversation, m.parent, m.role, *content, *rest, odds)


def message_of(row: tuple[Any, ...], **more: Any) -> StoredMessage:
    """Return the message of a row; `more` are the fields that other tables hold."""
    number, conversation, parent, role, text, thought, tokens, created, finished, *rest, odds = row
    known: StoredRole = next((name for name in STORED_ROLES if name == role), "user")
    more["likelihoods"] = likelihoods_from_blob(odds) if odds else ()
    return StoredMessage(
        number,
        conversation,
        parent,
        known,
        text,
        thought,
        tokens_from_blob(tokens) if tokens else (),
        created,
        bool(finished),
        *rest,
        **more,
    )


def answer_row(message: StoredMessage) -> tuple[object, ...] | None:
    """Return the row of an answer's facts; None for a message that no model wrote."""
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


def extras_row(conversation: int, extras: ConversationExtras) -> tuple[object, ...]:
    changes, files = interventions_to_json(extras.interventions), files_to_json(extras.files)
    return (conversation, "", storable(extras.draft), files, changes)


def interventions_to_json(kept: ModelInterventions | None) -> str:
    if kept is None:
        return ""
    named = {"model": storable(kept.path), "interventions": asdict(kept.interventions)}
    return json.dumps(storable_in(named))


def files_to_json(files: tuple[DraftedFile, ...]) -> str:
    return json.dumps([_drafted(file) for file in files]) if files else ""


def _drafted(file: DraftedFile) -> dict[str, object]:
    named: dict[str, object] = {"path": storable(file.path), "name": storable(file.name)}
    known = file.attached
    if known is None:
        return named
    return named | {"text": storable(known.text), "kind": known.kind, "whole": known.whole}


def extras_of(row: tuple[Any, ...]) -> ConversationExtras:
    _, gains, draft, files, changes = row
    kept = _object(changes) or _object(gains)
    found, path = _interventions(kept), _text(kept.get("model"))
    drafted = _list(files)
    return ConversationExtras(
        ModelInterventions(path, found) if found and path is not None else None,
        _text(draft) or "",
        tuple(_drafted_of(one) for one in drafted if isinstance(one, dict)),
    )


def _drafted_of(kept: Mapping[str, Any]) -> DraftedFile:
    path, name = _text(kept.get("path")) or "", _text(kept.get("name")) or ""
    text = _text(kept.get("text"))
    if text is None:
        return DraftedFile(path, name)
    row = (0, 0, name, text, 0, kept.get("kind"), kept.get("whole"))
    return DraftedFile(path, name, attachment_of(row))


def attachment_columns(connection: sqlite3.Connection) -> str:
    """Return the columns of attachments that a file has: an older one may be read-only, and is then
    not brought to the newest version. sqlite3.Error."""
    there = {row[1] for row in connection.execute("PRAGMA table_info(attachments)")}
    return ATTACHMENT if set(ATTACHMENT.split(", ")) <= there else _FIRST_ATTACHMENT


def attachment_row(message: int, place: int, a: Attachment) -> tuple[object, ...]:
    return (message, place, storable(a.name), storable(a.text), a.tokens, a.kind, a.whole)


def attachment_of(row: tuple[Any, ...]) -> Attachment:
    _, _, name, text, tokens, *more = row
    kind, whole = more or ("", 0)
    known = next((one for one in ATTACHMENT_KINDS if one == kind), kind_of_text(str(name)))
    numbers = (n if type(n) is int and n >= 0 else 0 for n in (tokens, whole))
    return Attachment(str(name), str(text), next(numbers), known, next(numbers))


def stop_reason(word: object) -> StopReason | None:
    """Return the stop reason of a word; None if it is none."""
    return next((known for known in STOP_REASONS if known == word), None)


def run_to_json(run: AnswerRun | None) -> str | None:
    """Return the facts of a run as JSON, without the model, which has columns."""
    if run is None:
        return None
    kept: dict[str, object] = {name: getattr(run, name) for name in _RUN_TEXTS}
    kept |= {"threads": run.threads, "thinking": run.thinking}
    kept["switches"] = [asdict(switch) for switch in run.switches] or None
    kept["sampling"] = asdict(run.sampling) if run.sampling else None
    changed = run.interventions != NO_CHANGES  # a model named without a change is kept, too
    kept["interventions"] = asdict(run.interventions) if changed else None
    kept["intervention_switches"] = [asdict(one) for one in run.intervention_switches] or None
    return json.dumps({name: value for name, value in kept.items() if value is not None})


def run_from_json(text: str | None, model: ModelIdentity) -> AnswerRun | None:
    return None if text is None else run_from_mapping(_object(text), model)


def run_from_mapping(kept: Mapping[str, Any], model: ModelIdentity) -> AnswerRun:
    sampling = kept.get("sampling")
    options = from_mapping(SamplingOptions, sampling) if isinstance(sampling, dict) else None
    others = ("model", "sampling", "interventions")
    named = {name: value for name, value in kept.items() if name not in others}
    run = from_mapping(AnswerRun, named)
    return replace(run, model=model, sampling=options, interventions=_interventions(kept))


def from_mapping(kind: type[_Kept], kept: Mapping[str, Any]) -> _Kept:
    """Return a record of what is known by name and fits its field; the rest is left out."""
    try:
        whole = msgspec.convert(kept, kind)
    except msgspec.ValidationError:
        pass
    else:
        if not any(map(_is_beyond, msgspec.structs.astuple(whole))):
            return whole
    found = fitting(kept, kind)
    return kind(**{name: value for name, value in found.items() if not _is_beyond(value)})


def storable_in(value: Any) -> Any:
    """Return a value of JSON with whole characters only in its texts."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [storable_in(one) for one in value]
    if isinstance(value, dict):
        return {storable(name): storable_in(one) for name, one in value.items()}
    return value


def _is_beyond(value: Any) -> bool:
    """Return whether a number is too large for a row, or not finite."""
    if type(value) is int:
        return abs(value) >= 1 << 64
    return type(value) is float and not math.isfinite(value)


def _text(value: object) -> str | None:
    return storable(value) if isinstance(value, str) else None


def _interventions(kept: Mapping[str, Any]) -> Interventions:
    """Return the interventions of an object, or those that its gains [layers][heads] are, which
    older programs have kept."""
    try:
        found = msgspec.convert(kept.get("interventions") or {}, Interventions)
    except msgspec.ValidationError:
        found = NO_CHANGES
    try:
        gains = msgspec.convert(kept.get("gains"), Gains | None)
    except msgspec.ValidationError:
        return found
    old = from_old_gains(gains)
    return found if not old else replace(found, changes=(*old.changes, *found.changes))


def _object(text: str) -> dict[str, Any]:
    value = _read_json(text)
    return value if isinstance(value, dict) else {}


def _list(text: str) -> list[Any]:
    value = _read_json(text)
    return value if isinstance(value, list) else []


def _read_json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        pass
    try:  # what is damaged in one place only, or has half a character
        value = json.loads(text, parse_float=_finite, parse_constant=_finite)
        return storable_in(value)
    except (ValueError, TypeError, RecursionError):
        return None


def _finite(text: str) -> float | None:
    """Return null for what no number is, and no float holds."""
    number = float(text)
    return number if math.isfinite(number) else None
