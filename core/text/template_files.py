"""The files beside a checkpoint that its chat templates are read from, as transformers names them.
The template of prompts with functions may have a file of its own, in a folder."""

from __future__ import annotations

import json
from pathlib import Path

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import MAX_TOKENIZER_BYTES, read_bytes
from llm_lite.core.text.chat_template import TOOL_USE

TEMPLATE = "chat_template.jinja"
LISTED = "chat_template.json"  # one, or a list of {name, template}
FOLDER = "additional_chat_templates"
FOR_TOOLS = f"{FOLDER}/{TOOL_USE}.jinja"
ALL = (TEMPLATE, LISTED, FOR_TOOLS)


def in_one_folder(folder: Path) -> dict[str, bytes]:
    """Return the template files of a folder, by name, as files of one that has no other in it.
    FileError."""
    found = {
        name: read_bytes(folder / name, MAX_TOKENIZER_BYTES)
        for name in ALL
        if (folder / name).is_file()
    }
    for_tools = found.pop(FOR_TOOLS, None)
    if for_tools is None or TEMPLATE not in found:  # which is the one that is read
        return found
    named = {"default": found[TEMPLATE], TOOL_USE: for_tools}
    try:
        rows = [{"name": name, "template": text.decode()} for name, text in named.items()]
    except UnicodeDecodeError as error:
        problem = f"a chat template is not valid UTF-8 at byte {error.start}"
        raise FileError(folder, problem) from None
    return {LISTED: json.dumps({"chat_template": rows}, ensure_ascii=False).encode()}
