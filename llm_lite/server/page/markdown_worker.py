"""A process of its own turns Markdown into HTML; only `Renderer` starts it.

Raw HTML is text like any other, pictures are links, links are those that may be opened (others stay
as they were written), and code is coloured by classes: nothing here needs a style in HTML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from html import escape, unescape
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element

from llm_lite.core.cjk_emphasis import add_cjk_emphasis
from llm_lite.core.plain_text import can_be_opened
from llm_lite.core.text.code_classes import CLASSES
from llm_lite.core.text.markdown_rules import add_footnotes, add_math
from llm_lite.core.text.sandbox.serving import Action, Answer, serve

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


ELEMENTS = frozenset(
    (
        *("math", "mrow", "mi", "mo", "mn", "mtext", "mfrac", "msqrt", "mroot", "msub", "msup"),
        *("msubsup", "munder", "mover", "munderover", "mtable", "mtr", "mtd", "mspace", "mstyle"),
        *("mpadded", "mphantom", "mmultiscripts", "mprescripts", "none"),
    )
)
ATTRIBUTES = frozenset(
    (
        *("stretchy", "fence", "form", "accent", "accentunder", "movablelimits", "mathvariant"),
        *("displaystyle", "scriptlevel", "linethickness", "columnalign", "rowspacing"),
        *("columnspacing", "width", "height", "depth", "minsize", "maxsize", "separator"),
        *("largeop", "symmetric", "lspace", "rspace"),
    )
)
_VALUE = re.compile(r"[\w .%+-]{1,40}")
_UNKNOWN = re.compile(r"\\[A-Za-z]")
FORMULA_DEPTH = 200  # of elements in each other


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
    add_cjk_emphasis(made)
    for name, rule in _RULES.items():
        made.add_render_rule(name, rule)
    return made


def _fence(self: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    """Write code with a bar above it: its language, and room for the page's button."""
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
    """Write a link that opens beside the page, and tells nobody where it was found."""
    href = escape(str(tokens[at].attrs.get("href", "")))
    return f'<a href="{href}" target="_blank" rel="noopener noreferrer nofollow">'


def _cell(self: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    """Write a cell aligned by a class: markdown-it aligns by a style, which the page's policy
    forbids."""
    token = tokens[at]
    side = str(token.attrs.get("style", "")).removeprefix("text-align:")
    known = f' class="{side}"' if side in ("left", "center", "right") else ""
    return f"<{token.tag}{known}>"


def _table(self: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    opens = tokens[at].nesting > 0
    return '<div class="table" tabindex="0"><table>\n' if opens else "</table></div>\n"


def _math(self: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    """Write a formula; what cannot be read stays as it was written."""
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
    """Return the text without characters that no HTML may have."""
    return "".join(c for c in text if c in "\n\t" or (c >= " " and not "\x7f" <= c <= "\x9f"))


def mathml(tex: str, display: bool) -> str | None:
    """Return a formula as MathML; None for what is no formula, or has a command that is not
    known."""
    from latex2mathml.converter import convert_to_element

    try:
        root = convert_to_element(tex, display="block" if display else "inline")
        written = "".join(_written(root, FORMULA_DEPTH))
    except (Exception, RecursionError):  # whatever a text makes the converter raise
        return None
    kind = ' display="block"' if display else ""
    return f"<math{kind}>{written}</math>"


def _written(element: Element, deeper: int) -> list[str]:
    """Return what is in an element, without its own tag. Raises ValueError for what is not
    known."""
    if deeper == 0:
        raise ValueError("elements lie too deep in each other")
    parts = [_text(element.text)]
    for child in element:
        name = child.tag.rpartition("}")[2]
        if name not in ELEMENTS:
            raise ValueError(f"unknown element {name}")
        inside = "".join(_written(child, deeper - 1))
        parts += [f"<{name}{_attributes(child)}>{inside}</{name}>", _text(child.tail)]
    return parts


def _attributes(element: Element) -> str:
    kept = (
        (name, value)
        for name, value in element.attrib.items()
        if name in ATTRIBUTES and _VALUE.fullmatch(value)
    )
    return "".join(f' {name}="{value}"' for name, value in kept)


def _text(given: str | None) -> str:
    text = unescape(given or "")
    if _UNKNOWN.search(text):
        raise ValueError("a command that is not known")
    return escape(text)
