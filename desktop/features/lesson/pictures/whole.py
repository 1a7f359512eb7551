"""The last step: the whole way once more, with the sentence of the lesson."""

from __future__ import annotations

from llm_lite.desktop.features.lesson.begin import CELLS, Way, draw_way
from llm_lite.desktop.features.lesson.model import GoToStep
from llm_lite.desktop.features.lesson.numbers import Name, sampled
from llm_lite.desktop.features.lesson.pictures.choosing import drawn_words
from llm_lite.desktop.features.lesson.scene import STRONG, Scene
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.token_text import visible

TALLEST = 62.0  # spacing units
GUESSES = 5


def draw_whole(scene: Scene) -> None:
    """Each station leads to its step."""
    ui, (x0, y0, x1, y1) = scene.ui, scene.rect
    small = ui.theme.size("small")
    tall = min(y1 - y0 - 2 * small - ui.u(4), ui.u(TALLEST))
    top = y0 + (y1 - y0 - tall - 2 * small - ui.u(2)) / 2
    for step, box in draw_way(ui, scene.draw, (x0, top, x1 - ui.u(2), top + tall), _way(scene)):
        if scene.pressed(f"station.{step}.{round(box[0])}", box):
            scene.actions.append(GoToStep(scene.lesson.number_of(step) - 1))
    words = tr("Click a station to see its steps again, or go on with another sentence.")
    scene.say(words, (x0 + x1) / 2, top + tall + small + ui.u(2), "faint", align="middle",
              room=x1 - x0)  # fmt: skip


def _way(scene: Scene) -> Way:
    trace, lesson = scene.trace, scene.lesson
    found = sampled(trace.distribution, lesson.temperature, lesson.top_p, lesson.draws)
    top = trace.distribution.top[:GUESSES]
    places = tuple(place for place, _ in trace.tokens)
    full = STRONG * trace.row.rms or 1.0

    def write(name: Name, x: float, y: float) -> float:
        return scene.number(name, x, y, "muted")

    return Way(
        text="".join(lesson.words).strip(),
        tokens=tuple(scene.token(place) for place in places),
        places=places,
        vector=tuple(value / full for value in trace.row.values[: 3 * CELLS]),
        layers=trace.shape.layers,
        guesses=tuple(
            (visible(token.text), share) for token, share in zip(top, found.shares, strict=False)
        ),
        ids=tuple(token.id for token in top),
        next_token=drawn_words(scene, found),
        write=write,
        at=scene.t,
    )
