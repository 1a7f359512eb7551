"""Limits of the sandbox for tests: what only time ends is over sooner."""

from __future__ import annotations

from llm_lite.core.records import replace
from llm_lite.core.text import chat_template
from llm_lite.core.text.sandbox.limits import Limits

CPU_SECONDS = 0.2  # a prompt takes milliseconds


def hurried() -> dict[str, Limits]:
    """The limits of chat templates by their names there, with less processor time."""
    limits = {name: getattr(chat_template, name) for name in ("COMPILING", "RENDERING")}
    return {name: replace(limit, cpu_seconds=CPU_SECONDS) for name, limit in limits.items()}
