"""Conversations as a page to read: one file that loads nothing and runs nothing.

All text is escaped; raw HTML in Markdown is shown as it was typed. Pictures are links, as one from
elsewhere would tell its server who reads. The page's own policy forbids all but its style.
"""

from __future__ import annotations

from functools import cache
from html import escape
from typing import TYPE_CHECKING

from llm_lite.core.attached_text import Attachment
from llm_lite.core.cjk_emphasis import add_cjk_emphasis
from llm_lite.core.history.exchange.markdown import answer_to_markdown, moment, speaker
from llm_lite.core.history.records import StoredConversation, StoredMessage
from llm_lite.core.history.tree import ConversationTree
from llm_lite.core.plain_text import can_be_opened, one_line

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_LONGEST = 200_000  # characters of a message that are laid out as Markdown; others are plain text
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.55 system-ui, sans-serif; }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: break-word; }
header p, h2 { color: GrayText; font-size: 0.85rem; font-weight: 600; margin: 1.6rem 0 0.3rem; }
pre { overflow-x: auto; padding: 0.8rem; border: 1px solid GrayText; border-radius: 6px; }
code, .plain { font-family: ui-monospace, monospace; font-size: 0.9em; }
.plain, .user { white-space: pre-wrap; }
.user { border-left: 3px solid AccentColor; padding-left: 0.8rem; }
table { border-collapse: collapse; } td, th { border: 1px solid GrayText; padding: 0.2rem 0.6rem; }
details { color: GrayText; } details p { white-space: pre-wrap; }
"""
_PAGE = """<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{title}</h1>{created}</header>
<main>
{body}
</main>
</body>
</html>
"""


def to_html(conversation: StoredConversation, *, thoughts: bool = True) -> str:
    """Return what is shown of a conversation as HTML; with `thoughts` also the thoughts, folded."""
    summary = conversation.summary
    body = []
    if summary.system_prompt:
        prompt = f'<div class="user">{_text(summary.system_prompt)}</div>'
        body.append(f"<section><h2>System prompt</h2>{prompt}</section>")
    for message in ConversationTree.of(conversation).path:
        body.append(_section(message, thoughts=thoughts))
    title = _text(one_line(summary.title).strip() or "Conversation")
    created = f"<p>{_text(moment(summary.created))}</p>" if summary.created else ""
    return _PAGE.format(title=title, style=_STYLE, created=created, body="\n".join(body))


def _section(message: StoredMessage, *, thoughts: bool) -> str:
    parts = [f"<h2>{_text(speaker(message))}</h2>"]
    parts += map(_attached, message.attachments)
    if thoughts and message.thought:
        parts.append(
            f"<details><summary>Thoughts</summary><p>{_text(message.thought)}</p></details>"
        )
    if message.role == "assistant" and len(message.text) <= _LONGEST:
        parts.append(_renderer().render(_fit(answer_to_markdown(message))))
    else:
        kind = "plain" if message.role == "assistant" else "user"
        parts.append(f'<div class="{kind}">{_text(message.text)}</div>')
    if not message.finished:
        parts.append("<p><em>This answer was not finished.</em></p>")
    return f"<section>{''.join(parts)}</section>"


def _attached(attachment: Attachment) -> str:
    """Return an attachment's name, with its text folded below."""
    name = f"Attached: {_text(one_line(attachment.name))}"
    if not attachment.text:
        return f"<p>{name}</p>"
    return f"<details><summary>{name}</summary><pre>{_text(attachment.text)}</pre></details>"


@cache
def _renderer() -> MarkdownIt:
    from markdown_it import MarkdownIt  # late: only an export to HTML needs it

    made = MarkdownIt("commonmark", {"html": False})
    made.enable(["table", "strikethrough"]).disable("image")
    add_cjk_emphasis(made)
    made.validateLink = can_be_opened  # type: ignore[method-assign, assignment]
    return made


def _text(text: str) -> str:
    return escape(_fit(text))


def _fit(text: str) -> str:
    """Return the text without characters that no HTML may have."""
    return "".join(c for c in text if c in "\n\t" or (c >= " " and not "\x7f" <= c <= "\x9f"))
