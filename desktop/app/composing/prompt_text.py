"""A prompt as a file: Markdown, whose name is the prompt's. Files from elsewhere may begin with a
few lines between `---`, of which a name or title counts."""

from __future__ import annotations

import re
from pathlib import Path

from llm_lite.core.attachments.decoding import decode
from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import read_bytes
from llm_lite.core.files.places import plain_name
from llm_lite.desktop.state.composing.prompts import LONGEST_NAME, LONGEST_PROMPT, SavedPrompt

ENDINGS = (".md", ".markdown", ".txt")
_LARGEST = 4 * LONGEST_PROMPT  # bytes
_FRONT = re.compile(r"---[ \t]*\n(.{0,4000}?)\n---[ \t]*(?:\n|$)", re.DOTALL)
_NAME = re.compile(r"^(?:name|title)[ \t]*:[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)


def prompt_name(name: str) -> str:
    """What a prompt of this name is kept as."""
    return plain_name(name, LONGEST_NAME, "prompt")


def read_prompt(path: Path) -> SavedPrompt:
    """FileError where it is none, in one sentence."""
    if path.suffix.lower() not in ENDINGS:
        raise FileError(path, f"expected a text file that ends with one of {', '.join(ENDINGS)}")
    text = decode(read_bytes(path, _LARGEST))
    if text is None:
        raise FileError(path, "expected a text, found binary data")
    name, front = path.stem, _FRONT.match(text)
    if front is not None:
        text = text[front.end() :]
        named = _NAME.search(front[1])
        name = named[1].strip(" \"'") if named else name
    text = text.strip("\n")
    if not text.strip():
        raise FileError(path, "holds no text: a prompt has some")
    if len(text) > LONGEST_PROMPT:
        expected = f"expected at most {LONGEST_PROMPT:,} characters, found {len(text):,}"
        raise FileError(path, expected)
    return SavedPrompt(prompt_name(name), text)


def written(prompt: SavedPrompt) -> bytes:
    """A text that begins like front matter is given some, so that it is read as it was."""
    text = prompt.text.strip("\n")
    if text.startswith("---"):
        text = f"---\nname: {prompt.name}\n---\n{text}"
    return f"{text}\n".encode(errors="backslashreplace")
