"""Writes the list of questions in docs/questions.md (make questions)."""

from __future__ import annotations

import re
from pathlib import Path

from llm_lite.core.questions import wire
from llm_lite.core.questions.question import Question
from llm_lite.core.questions.table import QUESTIONS

PLACE = Path(__file__).resolve().parents[1] / "docs" / "questions.md"
MARK = "<!-- The list is written by `make questions`. -->\n"


def listed() -> str:
    return "\n".join(map(_section, QUESTIONS))


def _section(question: Question) -> str:
    parts = [f"### {question.name}", "", f"Ask {question.subject}. {_answer(question)}", ""]
    rows = [_row(one) for one in wire.parameters(question)]
    if rows:
        parts += ["| parameter | | default |", "| --- | --- | --- |", *rows, ""]
    parts += [f"Of {_kinds(question)}; `GET /inspect/{question.name}`, `{_command(question)}`.", ""]
    return "\n".join(parts)


def _kinds(question: Question) -> str:
    others = {"encoders": question.of_encoders, "targets of encoder-decoders": question.of_pairs}
    if all(others.values()):
        return "encoders and encoder-decoders too"
    found = [name for name, is_asked in others.items() if is_asked]
    return f"{found[0]} too" if found else "decoders"


def _answer(question: Question) -> str:
    """Return the first paragraph of the answer's docstring as one line."""
    first = re.sub(r"\s+", " ", (question.answer.__doc__ or "").split("\n\n")[0]).strip()
    text = re.sub(r"^The answer to \w+(?::|,) ", "", first)
    return text[:1].upper() + text[1:]


def _row(one: wire.Field) -> str:
    default = (
        "required" if one.is_required else "" if one.query_default is None else f"`{one.default}`"
    )
    return f"| `{one.name}` | {one.about} | {default} |"


def _command(question: Question) -> str:
    """Return the example as a command line."""
    words = [f"{name}={value}" for name, value in wire.query_of(question, question.example).items()]
    return " ".join(["llm-lite ask MODEL", question.name, *words, '--text "..."'])


def written(page: str) -> str:
    """Return the page with the list as it is now."""
    return f"{page.partition(MARK)[0]}{MARK}\n{listed()}"


if __name__ == "__main__":
    PLACE.write_text(written(PLACE.read_text("utf-8")), "utf-8")
