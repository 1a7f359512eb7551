"""Formulas as MathML, which browsers draw and screen readers say. For the process apart alone.

What the converter makes is taken for no more than a tree: elements and attributes that are not
known here are left out, and every text is escaped.
"""

from __future__ import annotations

import re
from html import escape, unescape
from xml.etree.ElementTree import Element

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
DEPTH = 200  # of elements in each other


def mathml(tex: str, display: bool) -> str | None:
    """None for what is no formula, or has a command that is not known."""
    from latex2mathml.converter import convert_to_element

    try:
        root = convert_to_element(tex, display="block" if display else "inline")
        written = "".join(_written(root, DEPTH))
    except (Exception, RecursionError):  # whatever a text makes the converter raise
        return None
    kind = ' display="block"' if display else ""
    return f"<math{kind}>{written}</math>"


def _written(element: Element, deeper: int) -> list[str]:
    """What is in an element, its own tag left out. ValueError for what is not known."""
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


def _text(said: str | None) -> str:
    text = unescape(said or "")
    if _UNKNOWN.search(text):
        raise ValueError("a command that is not known")
    return escape(text)
