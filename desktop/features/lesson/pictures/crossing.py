"""Of encoder-decoders: a query of the target over keys and values of the source."""

from __future__ import annotations

from llm_lite.desktop.features.lesson.motion import part
from llm_lite.desktop.features.lesson.scene import Scene
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.token_text import visible

KEY_CELLS = 32
LABEL = 24.0  # spacing units


def draw_cross(scene: Scene) -> None:
    """The query runs down the source's keys; beside them the shares, below what is found."""
    ui, trace = scene.ui, scene.trace
    found = trace.opened.cross
    if found is None:
        return
    x0, y0, x1, y1 = scene.rect
    small, head = ui.theme.size("small"), found.head
    left = x0 + ui.u(LABEL)
    keys = left + (x1 - left) * 0.36
    scores, bars = keys + ui.u(14), keys + ui.u(18)
    words = tr("query of “{token}”, from the target").format(token=scene.token(trace.position))
    scene.say(words, left, y0, "link")
    top = y0 + small + ui.u(1)
    scene.strip(
        head.query, (left, top, keys, top + ui.u(4)), cells=KEY_CELLS, name=("cross_query",)
    )
    top += ui.u(6)
    scene.say(tr("keys, from the source"), left, top)
    scene.say(tr("score"), scores, top, align="right")
    scene.say(tr("share"), x1, top, align="right")
    top += small + ui.u(1)
    out = y1 - small - ui.u(6)
    added = out - 2 * small - ui.u(10)
    bottom = added - small - ui.u(3)
    each = min(ui.u(9), (bottom - top) / max(len(head.scores) + (head.others > 0), 1))
    run = part(scene.t, 0.0, 0.55) * len(head.scores)
    for index, score in enumerate(head.scores):
        y, done = top + index * each, part(run, index, index + 1)
        line = y + (each - small) / 2 - 1
        name = visible(trace.source[score.position].text)
        scene.say(name, left - ui.u(2), line, "text", align="right", room=ui.u(LABEL - 2))
        high = max(ui.u(1.5), min(ui.u(5), each - ui.u(1.5)))
        cells = (left, y + (each - high) / 2, keys, y + (each + high) / 2)
        scene.strip(score.key, cells, cells=KEY_CELLS, alpha=0.45 + 0.55 * done)
        scene.number(("cross_score", score.position), scores, line, "muted", alpha=done)
        grown = part(scene.t, 0.4, 0.75)
        tall = max(ui.u(1.25), min(ui.u(3.5), each - ui.u(1.5)))
        bar = (bars, y + (each - tall) / 2, x1 - ui.u(14), y + (each + tall) / 2)
        scene.bar(bar, score.probability * grown)
        scene.number(("cross_probability", score.position), x1, line, alpha=grown)
    if head.others:
        y = top + len(head.scores) * each
        words = tr("{n:,} others").format(n=head.others)
        scene.say(words, left - ui.u(2), y, "muted", align="right")
        scene.number(("cross_others",), x1, y, "muted")
    mixed, done = part(scene.t, 0.65, 0.85), part(scene.t, 0.8, 1.0)
    label = tr("Output of head {head}: the source's values, weighted and added up")
    scene.vector("cross_output", label.format(head=trace.head), head.output,
                 (x0, added, x1, added + ui.u(4)), mixed)  # fmt: skip
    label = tr("What all heads of the cross-attention add to the residual")
    scene.vector("cross_attended", label, found.attended, (x0, out, x1, out + ui.u(4)), done)
