"""ChatGPT's export, `conversations.json`: a list of conversations, each a mapping of nodes.

A conversation has "title", "create_time", "update_time", "current_node", "default_model_slug" and
"mapping": id -> {"parent", "children", "message"}. A message has "author" {"role"}, "create_time",
"metadata" {"model_slug", "attachments"} and "content": {"content_type", "parts"} where parts are
texts, and of "multimodal_text" also objects that point at files; or "text" of code and of what code
printed, "thoughts" of {"summary", "content"}, and a recap that says how long it thought.

What the person was not shown is no message: the metadata say
"is_visually_hidden_from_conversation", or the kind is a context's. Of those, what a person wrote of
themselves ("user_profile", "user_instructions") becomes the system prompt. Nodes without words are
left out, and what is below them is joined to what is above; thoughts belong to the answer below.
"""

from __future__ import annotations

import re
from collections import defaultdict

from msgspec import Struct

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
_CONTEXT = ("user_profile", "user_instructions")
_HIDDEN = ("user_editable_context", "model_editable_context", "reasoning_recap")
_MAYBE_EMPTY = ("", "text", "multimodal_text", "thoughts", *_FENCED)
_MARK = re.compile(" ?\ue200[^\ue200\ue201]*\ue201")  # of a source, which the export does not have


def from_chatgpt(entry: JsonEntry, notes: list[str]) -> StoredConversation:
    """Read one conversation of the list. FileError; what could not be kept is added to `notes`."""
    mapping = entry.get("mapping")
    nodes = dict(mapping.fields())
    parents = _parents(nodes, notes)
    number, created = new_id(), entry.get("create_time").time(0.0)
    model = entry.get("default_model_slug").text("") if "default_model_slug" in entry else ""
    reader = _Reader(number, created, model, notes)
    ordered = _top_down(nodes, parents)
    ends = set(nodes) - set(parents.values())
    for name in ordered:
        reader.read(name, nodes[name], parents[name], is_end=name in ends)
    kept, messages = reader.kept, reader.messages
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
        system_prompt=reader.system_prompt,
    )
    return StoredConversation(summary, shown)


class _Reader(Struct):
    """Reads the nodes of a conversation, parents before children."""

    conversation: int
    created: float
    model: str  # of answers that do not name one
    notes: list[str]
    system_prompt: str = ""
    kept: dict[str, int | None] = {}  # node -> its message, or that of the nearest node above
    messages: dict[int, StoredMessage] = {}
    _thoughts: dict[str, str] = {}  # node -> thoughts that the answer below it begins with

    def read(self, name: str, node: JsonEntry, above: str | None, *, is_end: bool) -> None:
        parent = self.kept[above] if above is not None else None
        thought = self._thoughts.get(above, "") if above is not None else ""
        try:
            message = self._message(node, parent)
        except FileError as error:
            message = None
            self.notes.append(f"{error}; this message was left out")
        if message is not None and message.role == "assistant":
            joined = "\n\n".join(part for part in (thought, message.thought) if part)
            message, thought = replace(message, thought=joined), ""
        if message is not None and not (message.text or message.attachments or is_end):
            thought, message = message.thought, None
        if thought and (is_end or message is not None):  # no answer follows
            parent = self._keep(_thought_alone(self, parent, thought))
            message = message and replace(message, parent=parent)
            thought = ""
        self.kept[name] = self._keep(message) if message is not None else parent
        self._thoughts[name] = thought

    def _keep(self, message: StoredMessage) -> int:
        self.messages[message.id] = message
        return message.id

    def _message(self, node: JsonEntry, parent: int | None) -> StoredMessage | None:
        """Return the message of a node; None if it has no words, or is no message."""
        message = node.get("message")
        if message.is_null:
            return None
        content, metadata = message.get("content"), message.get("metadata")
        kind = "" if content.is_null else content.get("content_type").text("text")
        if kind in _HIDDEN or _is_hidden(metadata):
            self.system_prompt = self.system_prompt or _instructions(content)
            return None
        author = message.get("author").get("role")
        role = next((known for known in STORED_ROLES if known == author.text()), None)
        if role is None:
            raise author.refused(f"one of {', '.join(STORED_ROLES)}")
        text, thought, attachments = _content(content, _files(metadata))
        if not text.strip() and not thought and not attachments:
            if kind not in _MAYBE_EMPTY:
                what = content.get("content_type").refused("a kind of content that is known")
                self.notes.append(f"{what}; this message was left out")
            return None
        slug = _slug(metadata) or self.model
        run = AnswerRun(ModelIdentity(slug)) if slug and role == "assistant" else None
        return StoredMessage(
            new_id(),
            self.conversation,
            parent,
            role,
            text,
            thought,
            created=message.get("create_time").time(self.created),
            run=run,
            attachments=attachments,
        )


def _thought_alone(reader: _Reader, parent: int | None, thought: str) -> StoredMessage:
    """Return an answer that came to no words."""
    run = AnswerRun(ModelIdentity(reader.model)) if reader.model else None
    return StoredMessage(
        new_id(), reader.conversation, parent, "assistant", "", thought,
        created=reader.created, run=run,
    )  # fmt: skip


def _is_hidden(metadata: JsonEntry) -> bool:
    name = "is_visually_hidden_from_conversation"
    return name in metadata and metadata.get(name).flag()


def _instructions(content: JsonEntry) -> str:
    """Return what a person wrote of themselves for all conversations."""
    found = (content.get(name).text("") for name in _CONTEXT if name in content)
    return "\n\n".join(filter(None, (text.strip() for text in found)))


def _slug(metadata: JsonEntry) -> str:
    names = ("model_slug", "default_model_slug")
    found = (metadata.get(name).text("") for name in names if name in metadata)
    return next(filter(None, found), "")


def _files(metadata: JsonEntry) -> dict[str, str]:
    """Return the names of files that were sent with a message, by the ids that parts point at."""
    if "attachments" not in metadata or metadata.get("attachments").is_null:
        return {}
    found = {}
    for number, row in enumerate(metadata.get("attachments").items()):
        name = row.get("name").text("")
        found[row.get("id").text("") or str(number)] = name or "attachment"
    return found


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


def _content(content: JsonEntry, files: dict[str, str]) -> tuple[str, str, tuple[Attachment, ...]]:
    """Return text, thought, and by their names the files and the parts that are no text."""
    if content.is_null:
        return "", "", tuple(map(Attachment, files.values()))
    kind = content.get("content_type").text("text")
    if kind == "thoughts":
        return "", _thought(content), ()
    texts, attachments, left = [], [], dict(files)
    if "parts" in content and not content.get("parts").is_null:
        for part in content.get("parts").items():
            if isinstance(part.value, dict):
                words, pointer = _object_part(part)
                texts += [words] if words else []
                place = next((one for one in left if pointer.endswith(one)), pointer)
                attachments += [Attachment(left.pop(place, pointer))] if pointer else []
            elif not part.is_null:
                texts.append(part.text())
    attachments += map(Attachment, left.values())
    for name in ("text", "result"):
        if name in content and not content.get(name).is_null:
            texts.append(content.get(name).text())
    text = _MARK.sub("", "\n\n".join(words for words in texts if words))
    if kind in _FENCED and text:
        language = content.get("language").text("") if "language" in content else ""
        fence = "```" if "```" not in text else "````"
        known = language.isalnum() and language != "unknown"
        text = f"{fence}{language if known else ''}\n{text}\n{fence}"
    return text, "", tuple(attachments)


def _object_part(part: JsonEntry) -> tuple[str, str]:
    """Return what was spoken as text, or else the name of a file: pictures and sounds are in other
    files of the export."""
    if "text" in part and not part.get("text").is_null:
        return part.get("text").text(), ""
    pointer = part.get("asset_pointer")
    return "", pointer.text("") or part.get("content_type").text("") or "attachment"


def _thought(content: JsonEntry) -> str:
    found = []
    if "thoughts" in content and not content.get("thoughts").is_null:
        for thought in content.get("thoughts").items():
            parts = (thought.get("summary").text(""), thought.get("content").text(""))
            found.append("\n".join(part for part in parts if part))
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
