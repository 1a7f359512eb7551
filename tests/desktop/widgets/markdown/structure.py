"""What markdown-it's tree says of a text, told as our blocks tell it: another way to the same."""

from markdown_it.tree import SyntaxTreeNode

from llm_lite.desktop.widgets.markdown.growing import clean
from llm_lite.desktop.widgets.markdown.reading import parser

LEAVES = {
    "paragraph": "paragraph",
    "heading": "heading",
    "fence": "code",
    "code_block": "code",
    "hr": "rule",
    "table": "table",
    "math_block": "math",
}
CONTAINERS = {"blockquote": "quote", "list_item": "item"}


def of_tree(text):
    """(kind, kinds around it, words) of every leaf, in order."""
    found = []
    walk(SyntaxTreeNode(parser().parse(clean(text))), (), found)
    return found


def walk(node, path, found):
    for child in node.children:
        if child.type in CONTAINERS:
            inside = (*path, CONTAINERS[child.type])
            before = len(found)
            walk(child, inside, found)
            if len(found) == before:
                found.append(("paragraph", inside, ""))
        elif child.type in LEAVES:
            kind = LEAVES[child.type]
            if child.type == "math_block" and child.info == "open":
                kind = "code"
            if kind == "paragraph" and is_display(child):
                kind = "math"
            found.append((kind, path, words(child)))
        else:
            walk(child, path, found)


def is_display(paragraph):
    inside = [leaf for inline in paragraph.children for leaf in inline.children]
    return len(inside) == 1 and inside[0].type == "math" and inside[0].markup == "display"


def words(node):
    """Letters and digits alone: marks, addresses behind links and breaks are told otherwise."""
    if node.type in ("fence", "code_block", "math_block"):
        return letters(node.content)
    if node.type == "image":
        return ""
    own = node.content if node.type in ("text", "text_special", "code_inline", "math") else ""
    return letters(own) + "".join(map(words, node.children))


def letters(text):
    return "".join(filter(str.isalnum, text))


def of_blocks(blocks):
    return [
        (block.kind, tuple(one.kind for one in block.path), letters(block.text)) for block in blocks
    ]


def has_addresses(text):
    return "](" in text or "]:" in text or "![" in text
