"""In a process apart: Markdown to HTML. Started by `markdown`, in no other way.

Raw HTML is text like any other, pictures are links, links are those that may be opened (others stay
as they were written), and code is coloured by classes: nothing here needs a style in HTML.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from llm_lite.core.plain_text import can_be_opened
from llm_lite.core.text.code_classes import CLASSES
from llm_lite.core.text.markdown_rules import add_footnotes, add_math
from llm_lite.core.text.sandbox.serving import Action, Answer, serve
from llm_lite.server.page.formulas import mathml

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

DEPTH = 24  # of quotes, lists and marks in each other
LONGEST_CODE = 60_000  # characters that are coloured


def main() -> None:
    serve(_actions)


def _actions() -> Mapping[str, Action]:
    return {"html": _html}


def _html(request: dict[str, Any], data: bytes) -> Answer:
    return {"html": _parser().render(_fit(request["text"]))}


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False, "maxNesting": DEPTH})
    made.enable(["table", "strikethrough"]).disable("image")
    made.validateLink = can_be_opened  # type: ignore[method-assign, assignment]
    add_math(made)
    add_footnotes(made)
    for name, rule in _RULES.items():
        made.add_render_rule(name, rule)
    return made


def _fence(self: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    """Code with a bar above it: its language, and room for the page's button."""
    token = tokens[at]
    words = token.info.split(maxsplit=1)
    language = words[0] if words else ""
    shown = f"<span>{escape(language[:40])}</span>"
    code = _coloured(token.content, language)
    return (
        f'<div class="code"><div class="code-bar">{shown}</div>'
        f'<pre tabindex="0"><code>{code}</code></pre></div>\n'
    )


def _link(self: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    """It opens beside the page, and tells nobody where it was found."""
    href = escape(str(tokens[at].attrs.get("href", "")))
    return f'<a href="{href}" target="_blank" rel="noopener noreferrer nofollow">'


def _cell(self: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    """markdown-it aligns by a style, which the page's policy forbids: here it is a class."""
    token = tokens[at]
    side = str(token.attrs.get("style", "")).removeprefix("text-align:")
    known = f' class="{side}"' if side in ("left", "center", "right") else ""
    return f"<{token.tag}{known}>"


def _table(self: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    opens = tokens[at].nesting > 0
    return '<div class="table" tabindex="0"><table>\n' if opens else "</table></div>\n"


def _math(self: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    """What cannot be read stays as it was written."""
    token = tokens[at]
    made = mathml(token.content, token.markup == "display")
    return made or f"<code>{escape(token.info)}</code>"


def _math_block(self: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    token = tokens[at]
    made = None if token.info == "open" else mathml(token.content, display=True)
    source = f"<pre><code>{escape(token.content)}</code></pre>"
    return f'<div class="math" tabindex="0">{made or source}</div>\n'


_RULES = {
    "math": _math,
    "math_block": _math_block,
    "fence": _fence,
    "code_block": _fence,
    "link_open": _link,
    "th_open": _cell,
    "td_open": _cell,
    "table_open": _table,
    "table_close": _table,
}


def _coloured(code: str, language: str) -> str:
    if not language or len(code) > LONGEST_CODE:
        return escape(code)
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return escape(code)
    parts: list[str] = []
    for kind, words in lexer.get_tokens(code):
        name = _class_of(str(kind).removeprefix("Token."))
        parts.append(f'<span class="c-{name}">{escape(words)}</span>' if name else escape(words))
    return "".join(parts)


def _class_of(kind: str) -> str:
    while kind:
        if kind in CLASSES:
            return CLASSES[kind]
        kind = kind.rpartition(".")[0]
    return ""


def _fit(text: str) -> str:
    """Without characters that no HTML may have."""
    return "".join(c for c in text if c in "\n\t" or (c >= " " and not "\x7f" <= c <= "\x9f"))
