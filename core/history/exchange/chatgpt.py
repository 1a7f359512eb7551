"""ChatGPT's export, `conversations.json`: a list of conversations, each a mapping of nodes.

A conversation has "title", "create_time", "update_time", "current_node" and "mapping": id ->
{"parent", "children", "message"}. A message has "author" {"role"}, "create_time", "metadata"
{"model_slug"} and "content": {"content_type", "parts"} where parts are texts, and of
"multimodal_text" also objects that point at files; or "text" of code and of what code printed,
"thoughts" of {"summary", "content"}, a recap's "content", and the person's "user_profile" and
"user_instructions". The first nodes hold no words; they are left out, and what is below them is
joined to what is above.
"""

from __future__ import annotations

from collections import defaultdict

from llm_lite.core.attached_text import Attachment
from llm_lite.core.errors import FileError
from llm_lite.core.history.exchange.entry import JsonEntry
from llm_lite.core.history.ids import new_id
from llm_lite.core.history.records import (
    STORED_ROLES,
    ConversationSummary,
    StoredConversation,
    StoredMessage,
)
from llm_lite.core.messages import AnswerRun, ModelIdentity
from llm_lite.core.records import replace

_FENCED = ("code", "execution_output")
_CONTEXT = ("user_profile", "user_instructions", "model_set_context")
_THINKING = ("thoughts", "reasoning_recap")
_MAYBE_EMPTY = ("", "text", "multimodal_text", "user_editable_context", *_FENCED, *_THINKING)


def from_chatgpt(entry: JsonEntry, notes: list[str]) -> StoredConversation:
    """Read one conversation of the list. FileError; what could not be kept is added to `notes`."""
    mapping = entry.get("mapping")
    nodes = dict(mapping.fields())
    parents = _parents(nodes, notes)
    number, created = new_id(), entry.get("create_time").time(0.0)
    kept: dict[str, int | None] = {}  # node -> its message, or that of the nearest node above
    messages: dict[int, StoredMessage] = {}
    for name in _top_down(nodes, parents):
        above = parents[name]
        parent = kept[above] if above is not None else None
        try:
            message = _message(nodes[name], number, parent, created, notes)
        except FileError as error:
            message = None
            notes.append(f"{error}; this message was left out")
        kept[name] = message.id if message else parent
        if message:
            messages[message.id] = message
    current = entry.get("current_node")
    at = kept.get(current.text("")) if not current.is_null else None
    if at is None and messages:
        if not current.is_null:
            notes.append(
                str(current.refused("one of the nodes in mapping")) + "; the last is shown"
            )
        at = max(messages)
    shown, selected = _path(messages, at)
    summary = ConversationSummary(
        number,
        entry.get("title").text(""),
        "model" if entry.get("title").value else "none",
        created,
        entry.get("update_time").time(created),
        archived=entry.get("is_archived").flag(),
        selected=selected,
    )
    return StoredConversation(summary, shown)


def _parents(nodes: dict[str, JsonEntry], notes: list[str]) -> dict[str, str | None]:
    """Return the parent of each node, None if the file has none or they run in a circle, which is
    cut."""
    parents: dict[str, str | None] = {}
    for name, node in nodes.items():
        parent = node.get("parent")
        known = parent.text("") if not parent.is_null else ""
        if known and known not in nodes:
            notes.append(
                str(parent.refused("one of the nodes in mapping")) + "; it begins a version"
            )
        parents[name] = known if known in nodes else None
    whole: set[str] = set()  # nodes from which a way leads to the top
    for name in nodes:
        way: list[str] = []
        on_way: set[str] = set()
        at: str | None = name
        while at is not None and at not in whole and at not in on_way:
            way.append(at)
            on_way.add(at)
            at = parents[at]
        if at is not None and at in on_way:
            parents[at] = None
            where = nodes[at].get("parent")
            notes.append(str(where.refused("no circle of nodes")) + "; it was cut here")
        whole.update(way)
    return parents


def _top_down(nodes: dict[str, JsonEntry], parents: dict[str, str | None]) -> list[str]:
    """Return parents before children, and children in the order that their parent gives them."""
    below: defaultdict[str | None, list[str]] = defaultdict(list)
    for name, parent in parents.items():
        below[parent].append(name)
    ordered: list[str] = []
    waiting = list(reversed(below[None]))
    while waiting:
        name = waiting.pop()
        ordered.append(name)
        children = nodes[name].get("children")
        listed = children.value if isinstance(children.value, list) else []
        order = {child: place for place, child in enumerate(listed) if isinstance(child, str)}
        waiting += sorted(below[name], key=lambda c: order.get(c, len(order)), reverse=True)
    return ordered


def _message(
    node: JsonEntry, conversation: int, parent: int | None, created: float, notes: list[str]
) -> StoredMessage | None:
    """Return the message of a node; None if it has no words."""
    message = node.get("message")
    if message.is_null:
        return None
    author = message.get("author").get("role")
    role = next((known for known in STORED_ROLES if known == author.text()), None)
    if role is None:
        raise author.refused(f"one of {', '.join(STORED_ROLES)}")
    content = message.get("content")
    text, thought, attachments = _content(content)
    if not text.strip() and not thought and not attachments:
        kind = "" if content.is_null else content.get("content_type").text("text")
        if kind not in _MAYBE_EMPTY:
            what = content.get("content_type").refused("a kind of content that is known")
            notes.append(f"{what}; this message was left out")
        return None
    metadata = message.get("metadata")
    slug = "" if metadata.is_null else metadata.get("model_slug").text("")
    run = AnswerRun(ModelIdentity(slug)) if slug and role == "assistant" else None
    return StoredMessage(
        new_id(),
        conversation,
        parent,
        role,
        text,
        thought,
        created=message.get("create_time").time(created),
        run=run,
        attachments=attachments,
    )


def _content(content: JsonEntry) -> tuple[str, str, tuple[Attachment, ...]]:
    """Return text, thought, and by their names the parts that are no text."""
    if content.is_null:
        return "", "", ()
    kind = content.get("content_type").text("text")
    if kind in _THINKING:
        return "", _thought(content), ()
    texts, attachments = [], []
    if "parts" in content and not content.get("parts").is_null:
        for part in content.get("parts").items():
            if isinstance(part.value, dict):
                words, attachment = _object_part(part)
                texts += words
                attachments += attachment
            elif not part.is_null:
                texts.append(part.text())
    for name in ("text", "result", *_CONTEXT):
        if name in content and not content.get(name).is_null:
            texts.append(content.get(name).text())
    text = "\n\n".join(words for words in texts if words)
    if kind in _FENCED and text:
        language = content.get("language").text("") if "language" in content else ""
        fence = "```" if "```" not in text else "````"
        text = f"{fence}{language if language.isalnum() else ''}\n{text}\n{fence}"
    return text, "", tuple(attachments)


def _object_part(part: JsonEntry) -> tuple[list[str], list[Attachment]]:
    """What was spoken is text; a picture is in another file of the export, named here."""
    if "text" in part and not part.get("text").is_null:
        return [part.get("text").text()], []
    pointer = part.get("asset_pointer")
    name = pointer.text("") or part.get("content_type").text("") or "attachment"
    return [], [Attachment(name)]


def _thought(content: JsonEntry) -> str:
    found = []
    if "thoughts" in content and not content.get("thoughts").is_null:
        for thought in content.get("thoughts").items():
            parts = (thought.get("summary").text(""), thought.get("content").text(""))
            found.append("\n".join(part for part in parts if part))
    elif "content" in content:
        found.append(content.get("content").text(""))
    return "\n\n".join(part for part in found if part)


def _path(
    messages: dict[int, StoredMessage], leaf: int | None
) -> tuple[tuple[StoredMessage, ...], int | None]:
    """Return the messages, each selecting the child on the way to the leaf, else the last."""
    chosen: dict[int | None, int] = {}
    for message in messages.values():
        chosen[message.parent] = message.id
    at = leaf
    if leaf is not None:
        chosen.pop(leaf, None)
    while at is not None:
        parent = messages[at].parent
        chosen[parent] = at
        at = parent
    shown = (replace(message, selected=chosen.get(message.id)) for message in messages.values())
    return tuple(shown), chosen.get(None)


def is_chatgpt(entry: JsonEntry) -> bool:
    return isinstance(entry.value, dict) and "mapping" in entry
