"""Step 1: the sentence falls apart into tokens, and an id picks its row of the embedding."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.lesson.model import PIECE, FollowPosition
from llm_lite.desktop.features.lesson.motion import part
from llm_lite.desktop.features.lesson.scene import Scene
from llm_lite.desktop.language.translate import tr

ROWS = 11  # of the table that are drawn at most
TIGHT = 100.0  # spacing units of height, below which a long sentence has lower tiles


def draw_tokens(scene: Scene) -> None:
    x0, y0, x1, y1 = scene.rect
    bottom = _draw_sentence(scene, y0)
    gap = 6.0 if y1 - bottom > scene.u(50) else 2.0
    _draw_table(scene, (x0, bottom + scene.u(gap), x1, y1))


def _draw_sentence(scene: Scene, y: float) -> float:
    """Tiles that move apart, each with its id below; the lower edge."""
    ui, trace = scene.ui, scene.trace
    apart, ids = part(scene.t, 0.0, 0.3), part(scene.t, 0.25, 0.45)
    x0, _, x1, _ = scene.rect
    is_tight = scene.height < ui.u(TIGHT) and len(trace.tokens) > 12
    small, tall = ui.theme.size("small"), ui.u(5 if is_tight else 8)
    wide = scene.say(tr("Tokens, and the id of each"), x0, y, "muted")
    note = _note(scene)
    if note:
        scene.say(note, x1, y, "faint", align="right", room=x1 - x0 - wide - ui.u(3))
    y += small + ui.u(2)
    x = x0
    for place, _ in trace.tokens:
        words = scene.token(place)
        with ui.font(style="small"):
            wide = float(imgui.calc_text_size(words).x) + ui.u(1) + ui.u(3) * apart
        with ui.font("mono", "small"):
            wide = max(wide, imgui.calc_text_size("00000").x + ui.u(1.5)) if apart > 0.5 else wide
        if x + wide > x1:
            x, y = x0, y + tall + small + ui.u(1.5 if is_tight else 3)
        chosen = place == trace.position
        scene.tile(words, (x, y, x + wide, y + tall), chosen=chosen and apart > 0.2)
        if scene.pressed(f"piece.{place}", (x, y, x + wide, y + tall)):
            scene.actions.append(FollowPosition(place))
        color = "link" if chosen else "muted"
        scene.number(("id", place), x + wide / 2, y + tall + ui.u(1), color, "middle", alpha=ids)
        x += wide + ui.u(0.25) + ui.u(1.5) * apart
    return y + tall + small + ui.u(1)


def _note(scene: Scene) -> str:
    """On what the tiles do not say by themselves."""
    before = scene.missing
    if any(PIECE in words for words in scene.lesson.words):
        return tr("A tile with a question mark is a part of a letter.")
    if before:
        return tr("{n:,} earlier tokens are not drawn").format(n=before)
    if any(not words.strip() for words in scene.lesson.words if words):
        return tr("␣ is a space.")
    return ""


def _draw_table(scene: Scene, rect: tuple[float, float, float, float]) -> None:
    """Some rows of the table; the token's own comes out of it."""
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = rect
    small, found = ui.theme.size("small"), part(scene.t, 0.4, 0.7)
    out = part(scene.t, 0.65, 0.95)
    shape = trace.shape
    words = tr(
        "The embedding: {count:,} tokens, and for each of them a row of {width:,} numbers"
    ).format(width=shape.width, count=shape.vocabulary)
    scene.say(words, x0, y0, room=scene.legend(x1, y0) - x0)
    top = y0 + small + ui.u(2)
    strip_top = y1 - small - ui.u(10)
    room = strip_top - small - top
    rows, gap = (ROWS, ui.u(12)) if room > ui.u(34) else (5, ui.u(6.5))
    high = max(ui.u(1.5), min(ui.u(7), (room - gap) / rows))
    wide, left = (x1 - x0) * 0.86, x0 + (x1 - x0) * 0.14
    for row in range(rows):
        low = top + row * high
        own = row == rows // 2
        color = scene.ui.color("hover", 0.7 if row % 2 else 1.0)
        corner = ImVec2(left + wide, low + high - ui.u(0.5))
        scene.draw.add_rect_filled(ImVec2(left, low), corner, color, ui.u(0.5))
        if own:
            place = (left, low, left + wide, low + high - ui.u(0.5))
            scene.strip(trace.row, place, alpha=found, name=("row",))
            scene.say(
                tr("row {n}").format(n=trace.token), left - ui.u(2), low + (high - small) / 2 - 1,
                "link", align="right", alpha=max(found, 0.02),
            )  # fmt: skip
    middle = top + (rows // 2 + 1) * high
    x = left + wide / 2
    scene.arrow((x, middle), (x, strip_top - small - ui.u(2.5)), out, "accent")
    label = tr("The vector of “{token}”").format(token=scene.token(trace.position))
    scene.vector("row", label, trace.row, (x0, strip_top, x1, strip_top + ui.u(5)), out)
