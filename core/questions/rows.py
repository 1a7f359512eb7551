"""Attention rows: what a token attends to, or what attends to it."""

from __future__ import annotations

from llm_lite.core.messages import AttentionRows, ReadAttentionRows
from llm_lite.core.questions.question import Parts, Question
from llm_lite.core.questions.replay import Inspected

SLICE = 0.01  # seconds of a rollout between two parts


def run(request: ReadAttentionRows, replay: Inspected) -> Parts[AttentionRows]:
    reader = replay.rows_reader(request)
    yield "anywhere"
    while (rows := reader.read(request, SLICE)) is None:
        yield "anywhere"
    return rows


ROWS = Question(
    "rows",
    ReadAttentionRows,
    AttentionRows,
    run,
    "where its heads look",
    ReadAttentionRows(0, "from", "rollout"),
    newest_only=True,
    of_encoders=True,
    reads_rows=True,
)
