"""Files that come with a message, and the text by which the model reads them, which is made only
here.

The files stand before the person's own words, each in this form:

Attached file: notes.md (the first 1,200 of 5,000 characters)

    ```markdown
    its text
    ```

The fence is longer than any row of backticks in the text, so that no text can end it. Of a picture
only the name is given:

Attached picture: cat.png (its content is not given)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from llm_lite.core.messages import ModelInterventions
from llm_lite.core.plain_text import one_line

AttachmentKind = Literal["text", "markdown", "code", "pdf", "picture"]
ATTACHMENT_KINDS: tuple[AttachmentKind, ...] = ("text", "markdown", "code", "pdf", "picture")
LONGEST_NAME = 120  # characters that the model is given
LONGEST_TEXT = 4 << 20  # characters of one file
_BACKTICKS = re.compile("`{3,}")
_SAME = (  # endings that are the language's name
    *("go", "java", "swift", "php", "lua", "sql", "css", "scss", "json", "toml", "xml", "svg"),
    *("diff", "patch", "ini", "cmake", "dart", "scala", "zig", "nim", "r"),
)
# What follows the fence, and the ends of names of files that are such code.
_ENDINGS = {
    "python": "py pyi pyw",
    "javascript": "js mjs cjs jsx",
    "typescript": "ts tsx",
    "c": "c h",
    "cpp": "cpp cc cxx hpp hh",
    "bash": "sh bash zsh",
    "yaml": "yaml yml",
    "html": "html htm",
    "glsl": "glsl comp vert frag",
    "rust": "rs",
    "ruby": "rb",
    "kotlin": "kt",
    "csharp": "cs",
    "perl": "pl",
    "latex": "tex",
    "powershell": "ps1",
    "julia": "jl",
    "haskell": "hs",
    "elixir": "ex",
    "objectivec": "m",
    **dict(zip(_SAME, _SAME, strict=True)),
}
LANGUAGES = {end: language for language, ends in _ENDINGS.items() for end in ends.split()}


class Attachment(Struct, frozen=True):
    """A file that came with a message, as it was then."""

    name: str
    text: str = ""
    tokens: int = 0  # of the text that the model is given; 0: not counted
    kind: AttachmentKind = "text"
    whole: int = 0  # characters of the file, where `text` is only its first part; 0: it is all

    @property
    def is_cut(self) -> bool:
        return self.whole > len(self.text)


def ending(name: str) -> str:
    """Return the lower-case ending of a file name without its dot: "py" for "a.PY", "" if there is
    none."""
    return name.rpartition(".")[2].lower() if "." in name else ""


def kind_of_text(name: str) -> AttachmentKind:
    end = ending(name)
    if end in ("md", "markdown", "mdx"):
        return "markdown"
    return "code" if end in LANGUAGES else "text"


def message_text(text: str, attachments: Iterable[Attachment]) -> str:
    """Return the text of a message as the model reads it: attached files, then the person's
    words."""
    return "\n\n".join(filter(None, (*map(attachment_text, attachments), text)))


def attachment_text(attachment: Attachment) -> str:
    """Return the text by which a message presents one attached file to the model."""
    name = one_line(attachment.name[:LONGEST_NAME])
    if attachment.kind == "picture":
        return f"Attached picture: {name} (its content is not given)"
    if not attachment.text:
        return f"Attached file: {name} (its content is not given)"
    part = ""
    if attachment.is_cut:
        part = f" (the first {len(attachment.text):,} of {attachment.whole:,} characters)"
    fence = _fence(attachment.text)
    language = "markdown" if attachment.kind == "markdown" else ""
    if attachment.kind == "code":
        language = LANGUAGES.get(ending(attachment.name), "")
    body = attachment.text.strip("\n")
    return f"Attached file: {name}{part}\n\n{fence}{language}\n{body}\n{fence}"


def _fence(text: str) -> str:
    longest = max(map(len, _BACKTICKS.findall(text)), default=2)
    return "`" * (longest + 1)


class DraftedFile(Struct, frozen=True):
    """A file that goes with a draft."""

    path: str  # "" where it is a text of its own
    name: str
    attached: Attachment | None = None  # None: it was not read yet


class ConversationExtras(Struct, frozen=True):
    """The interventions, the draft and the attached files that are kept with a conversation."""

    interventions: ModelInterventions | None = None
    draft: str = ""
    files: tuple[DraftedFile, ...] = ()
