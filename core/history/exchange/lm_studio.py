"""LM Studio's files, one conversation each: `~/.lmstudio/conversations/*.conversation.json`.

A conversation has "name", "createdAt" (ms), "pinned", "systemPrompt" and "messages"; each of these
has "versions" and the place of the one that is shown, "currentlySelected". A version has "role" and
is a "singleStep" with "content", or a "multiStep" with "steps", each a "contentBlock" with
"content" and, of an answer, "genInfo" with the model and its "stats". A content is a list of
{"type": "text", "text"}, and of files by name. A block of "style" {"type": "thinking"} is what the
model thought.
"""

from __future__ import annotations

from llm_lite.core.attached_text import Attachment
from llm_lite.core.history.exchange.entry import JsonEntry
from llm_lite.core.history.ids import new_id
from llm_lite.core.history.records import (
    STORED_ROLES,
    AnswerEnd,
    ConversationSummary,
    StoredConversation,
    StoredMessage,
)
from llm_lite.core.messages import AnswerRun, GenerationStats, ModelIdentity, StopReason
from llm_lite.core.records import replace

_SYSTEM = "llm.prediction.systemPrompt"
_ENDS: dict[str, StopReason] = {
    "eosFound": "end",
    "stopStringFound": "end",
    "toolCalls": "end",
    "maxPredictedTokensReached": "length",
    "contextLengthReached": "context",
    "userStopped": "stopped",
    "failed": "error",
    "modelUnloaded": "error",
}
_LARGEST = 1 << 62


def is_lm_studio(entry: JsonEntry) -> bool:
    messages = entry.value.get("messages") if isinstance(entry.value, dict) else None
    return isinstance(messages, list) and (
        any(isinstance(m, dict) and "versions" in m for m in messages)
        or (not messages and "createdAt" in entry)
    )


def from_lm_studio(entry: JsonEntry, notes: list[str]) -> StoredConversation:
    """Read a file of LM Studio. FileError; what could not be kept is added to `notes`.

    The versions of a message stand beside each other behind the shown one of the message before.
    """
    number, created = new_id(), entry.get("createdAt").time(0.0)
    messages: list[StoredMessage] = []
    parent: int | None = None
    chosen: dict[int | None, int] = {}
    for item in entry.get("messages").items():
        versions = list(item.get("versions").items())
        shown = item.get("currentlySelected").whole(max(0, len(versions) - 1), 0)
        made = [_version(version, number, parent, created, notes) for version in versions]
        messages += made
        if made:
            chosen[parent] = made[shown].id
            parent = made[shown].id
    name = entry.get("name").text("")
    summary = ConversationSummary(
        number,
        name,
        "model" if name else "none",
        created,
        entry.get("assistantLastMessagedAt").time(created),
        entry.get("pinned").flag(),
        system_prompt=_system_prompt(entry),
        selected=chosen.get(None),
    )
    whole = tuple(replace(message, selected=chosen.get(message.id)) for message in messages)
    return StoredConversation(summary, whole)


def _system_prompt(entry: JsonEntry) -> str:
    """Return the system prompt: what this conversation sets goes before what it began with."""
    configured = entry.get("perChatPredictionConfig")
    if not configured.is_null:
        for field in configured.get("fields").items():
            if field.get("key").value == _SYSTEM:
                return field.get("value").text("")
    return entry.get("systemPrompt").text("")


def _version(
    version: JsonEntry, conversation: int, parent: int | None, created: float, notes: list[str]
) -> StoredMessage:
    role = next((name for name in STORED_ROLES if name == version.get("role").value), None)
    if role is None:
        raise version.get("role").refused(f"one of {', '.join(STORED_ROLES)}")
    texts: list[str] = []
    thoughts: list[str] = []
    attachments: list[Attachment] = []
    run, end = None, None
    single = "steps" not in version
    for step in [version] if single else version.get("steps").items():
        if not single and step.get("type").value != "contentBlock":
            if step.get("type").value not in ("debugInfoBlock", "toolStatus"):
                kind = step.get("type").refused("contentBlock")
                notes.append(f"{kind}; this step was left out")
            continue
        words = _content(step.get("content"), attachments, notes)
        style = step.get("style")
        thinks = not style.is_null and style.get("type").value == "thinking"
        (thoughts if thinks else texts).append(words)
        if not step.get("genInfo").is_null:
            run, end = _generation(step.get("genInfo"))
    text = "\n\n".join(part for part in texts if part)
    thought = "\n\n".join(part for part in thoughts if part)
    return StoredMessage(
        new_id(),
        conversation,
        parent,
        role,
        text,
        thought,
        created=created,
        run=run,
        end=end,
        attachments=tuple(attachments),
    )


def _content(content: JsonEntry, attachments: list[Attachment], notes: list[str]) -> str:
    """Return the words; files are added to the attachments by their names."""
    if content.is_null:
        return ""
    if isinstance(content.value, str):
        return content.text()
    texts = []
    for part in content.items():
        kind = part.get("type").text()
        if kind == "text":
            texts.append(part.get("text").text())
        elif kind == "file":
            name = part.get("fileIdentifier").text("") or part.get("name").text("") or "file"
            attachments.append(Attachment(name))
        elif kind == "toolCallRequest":
            name = part.get("name").text("")
            texts.append(f"[tool call: {name}]")
        elif kind == "toolCallResult":
            texts.append(part.get("content").text(""))
        else:
            notes.append(f"{part.get('type').refused('text or file')}; this part was left out")
    return "".join(texts)


def _generation(info: JsonEntry) -> tuple[AnswerRun, AnswerEnd | None]:
    name = info.get("indexedModelIdentifier").text("") or info.get("identifier").text("")
    stats = info.get("stats")
    if stats.is_null:
        return AnswerRun(ModelIdentity(name)), None
    first = stats.get("timeToFirstTokenSec").number(0.0)
    written = GenerationStats(
        prompt_tokens=stats.get("promptTokensCount").whole(_LARGEST, 0),
        new_tokens=stats.get("predictedTokensCount").whole(_LARGEST, 0),
        decode_tok_s=stats.get("tokensPerSecond").number(0.0),
        ttft_ms=first * 1000,
    )
    seconds = stats.get("totalTimeSec").number(0.0)
    reason = _ENDS.get(stats.get("stopReason").text(""))
    return AnswerRun(ModelIdentity(name)), AnswerEnd(reason, written, seconds=seconds)
