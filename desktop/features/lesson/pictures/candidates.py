"""The likeliest tokens of a place: what could stand behind a mask, or come next in a target."""

from __future__ import annotations

from llm_lite.desktop.features.lesson.motion import part
from llm_lite.desktop.features.lesson.numbers import LISTED
from llm_lite.desktop.features.lesson.scene import Scene
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.token_text import visible

LABEL = 26.0  # spacing units


def draw_filling(scene: Scene) -> None:
    """A list of candidates; below it, how likely the token is that stands there."""
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = scene.rect
    small, shown = ui.theme.size("small"), part(scene.t, 0.7, 1.0)
    words = tr("Tokens that could replace “{token}”")
    scene.say(words.format(token=scene.token(trace.position)), x0, y0, "text", room=x1 - x0)
    bottom = y1 - small - ui.u(4)
    stands = trace.distribution.went_on
    _draw_list(scene, y0 + small + ui.u(3), bottom, 0, stands.id if stands else -1)
    if stands is not None:
        words = tr("The token that stands there is at place")
        x = x0 + scene.say(words, x0, y1 - small, alpha=shown) + ui.u(1.5)
        scene.number(("rank",), x, y1 - small, "link", "left", alpha=shown)


def draw_choosing(scene: Scene) -> None:
    """A list of candidates; greedy decoding takes the first, a beam keeps some."""
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = scene.rect
    small, shown = ui.theme.size("small"), part(scene.t, 0.7, 1.0)
    words = tr("What could follow “{token}” in the target")
    scene.say(words.format(token=scene.token(trace.position)), x0, y0, "text", room=x1 - x0)
    lines = 2 if trace.shape.beams > 1 else 1
    foot = y1 - lines * (small + ui.u(1.5))
    went_on = trace.distribution.went_on
    written = went_on.id if went_on else -1
    _draw_list(scene, y0 + small + ui.u(3), foot - ui.u(3), trace.shape.beams, written)
    tokens = [visible(token.text) for token in trace.distribution.top[: trace.shape.beams]]
    words = tr("Greedy decoding takes “{token}”.").format(token=tokens[0])
    scene.say(words, x0, foot, "text", alpha=shown, room=x1 - x0)
    if lines == 2:
        kept = ", ".join(f"“{token}”" for token in tokens)
        words = tr(
            "A beam of {n} continues this beginning with {tokens}, and keeps the {n} best of "
            "all beginnings."
        )
        words = words.format(n=trace.shape.beams, tokens=kept)
        scene.say(words, x0, foot + small + ui.u(1.5), alpha=shown, room=x1 - x0)


def _draw_list(scene: Scene, top: float, bottom: float, beams: int, there: int) -> None:
    """Tokens with logit, probability and, for a beam, its logarithm; `there` stands in the text."""
    ui, trace = scene.ui, scene.trace
    x0, _, x1, _ = scene.rect
    small = ui.theme.size("small")
    logits, shares = x0 + ui.u(LABEL + 14), x1 - (ui.u(16) if beams else 0.0)
    scene.say(tr("logit"), logits, top, align="right")
    scene.say(tr("probability"), shares, top, align="right")
    if beams:
        scene.say("log p", x1, top, align="right")
    top += small + ui.u(1)
    tokens = trace.distribution.top[:LISTED]
    each = min(ui.u(9), (bottom - top) / max(len(tokens), 1))
    for index, token in enumerate(tokens):
        grown, y = part(scene.t, 0.03 * index, 0.4 + 0.03 * index), top + index * each
        line = y + (each - small) / 2 - 1
        own = token.id == there
        scene.say(visible(token.text), x0 + ui.u(LABEL - 2), line, "link" if own else "text",
                  align="right", room=ui.u(LABEL - 2))  # fmt: skip
        scene.number(("logit", token.id), logits, line, "muted")
        number = scene.numbers.get(("likely", token.id))
        high = max(ui.u(1.5), min(ui.u(4), each - ui.u(1.5)))
        bar = (logits + ui.u(3), y + (each - high) / 2, shares - ui.u(14), y + (each + high) / 2)
        kept = not beams or index < beams
        scene.bar(bar, (number.value / 100 if number else 0.0) * grown,
                  "accent" if kept else "faint", 1.0 if kept else 0.5)  # fmt: skip
        scene.number(("likely", token.id), shares, line, alpha=grown)
        if beams:
            scene.number(("log_likely", token.id), x1, line, "muted", alpha=grown)
