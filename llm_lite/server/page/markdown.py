"""Markdown to HTML that is safe to show, made in a process apart with limits."""

from __future__ import annotations

from html import escape

from llm_lite.core.text.sandbox.limits import Limits
from llm_lite.core.text.sandbox.process import SandboxError, SandboxProcess

WORKER = "llm_lite.server.page.markdown_worker"
LIMITS = Limits(cpu_seconds=3.0, wall_seconds=10.0, memory_bytes=512 << 20)
LONGEST = 200_000  # characters that are read as Markdown


class Renderer:
    """For any thread; one text at a time."""

    def __init__(self) -> None:
        self._process = SandboxProcess(WORKER)

    def warm(self) -> None:
        self._process.warm()

    def html(self, text: str) -> str:
        """What is too long or takes too long is plain text."""
        if len(text) <= LONGEST:
            try:
                answer = self._process.call("html", {"text": text}, limits=LIMITS)
            except SandboxError:
                answer = {}
            if "html" in answer:
                return str(answer["html"])
        return f'<p class="plain">{escape(text)}</p>'

    def close(self) -> None:
        self._process.close()
