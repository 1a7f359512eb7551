"""The words of a text, and how the chosen one becomes tokens, step by step."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.messages.inspecting.tokenizing import (
    MOST_STEPPED,
    Lattice,
    LongestMatches,
    MergeSteps,
    TokenizedText,
    Word,
)
from llm_lite.core.records import replace
from llm_lite.core.text.token_spelling import candidate, shown, symbol_shown
from llm_lite.desktop.features.tokenizer import lattice, merges
from llm_lite.desktop.features.tokenizer.chips import (
    Chip,
    ChipColors,
    control_colors,
    draw_chip,
    draw_chips,
    draw_facts,
    draw_word_tokens,
    is_typed,
    kept_page,
    shown_as_spelled,
    template_colors,
    word_colors,
)
from llm_lite.desktop.features.tokenizer.state import (
    TokenizerChoice,
    interesting,
    steps_in,
)
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.widgets.by_keyboard import FLAT
from llm_lite.desktop.widgets.controls import line_slider
from llm_lite.desktop.widgets.icons import (
    ICON_CHECK,
    ICON_CHEVRON_LEFT,
    ICON_CHEVRON_RIGHT,
    ICON_CLOSE,
    ICON_PAUSE,
    ICON_PLAY,
)
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import help_mark, icon_button, text, wrapped

START = mark(
    "The longest beginning of the word that is a token is taken; then again, for the rest."
)
TOO_LONG = mark("The word has more characters than this tokenizer looks at: it is unknown.")
HIT = mark("“{candidate}” is a token, and the longest here: it is taken.")
MISS = mark("“{candidate}” is no token: the next candidate is one character shorter.")
NOTHING = mark("“{candidate}” is no token, and nothing shorter is left: the whole word is unknown.")


PACE = 0.8  # seconds a step
FASTEST, WHOLE = 0.12, 20.0  # seconds: of a step at least, of all together about
CUT = mark(
    "Pre-tokens are words, numbers and punctuation, cut before merging: no token reaches over the "
    "end of one. Click one to see how it becomes tokens."
)
OWN = mark(
    "This tokenizer cuts no pre-tokens; here they end where no merge reaches across a space."
)
FAR = mark("Steps are shown for the first {n:,} characters.")
MARKED = mark("This token is found in the text before anything else is cut.")
UNKNOWN = mark("The steps of this word are not known; its tokens are.")
LINES, LINES_LOW = 3.4, 1.4  # of words that are shown at once; the latter in a low panel


class StepsShown(Struct):
    """The words of the text that is shown, and when a step was played last."""

    text: TokenizedText | None = None
    chips: list[Chip] = field(default_factory=list)
    played: float | None = None  # seconds, as `Ui.now`


def draw(ui: Ui, tokenized: TokenizedText, choice: TokenizerChoice) -> TokenizerChoice:
    if not tokenized.words:
        wrapped(ui, tr("There are no words yet: write a text above."))
        return choice
    count = trn("{n:,} pre-token", "{n:,} pre-tokens", len(tokenized.words)).format(
        n=len(tokenized.words)
    )
    text(ui, count, style="small", bold=True)
    help_mark(ui, tr(OWN if tokenized.own_words else CUT))
    index = _index(tokenized, choice)
    choice = _draw_words(ui, tokenized, choice, index)
    word = tokenized.words[_index(tokenized, choice)]
    if word.steps is None:
        words = tr(FAR).format(n=MOST_STEPPED) if word.start >= MOST_STEPPED else tr(UNKNOWN)
        wrapped(ui, tr(MARKED) if word.marked else words)
        return choice
    return _draw_steps(ui, tokenized, word, choice)


def _index(tokenized: TokenizedText, choice: TokenizerChoice) -> int:
    """Return the index of the chosen word, else of the one with most steps and tokens."""
    if choice.word is not None and choice.word < len(tokenized.words):
        return choice.word
    return interesting(tokenized) or 0


def _draw_words(
    ui: Ui, tokenized: TokenizedText, choice: TokenizerChoice, index: int
) -> TokenizerChoice:
    """Draw words in a box that scrolls; the chosen one is framed."""
    kept = ui.local(StepsShown)
    if kept.text is not tokenized:
        kept.text, kept.chips = tokenized, [_chip(tokenized, word) for word in tokenized.words]
    chips = kept.chips
    width = imgui.get_content_region_avail().x
    page = kept_page(ui, "tokenizer.words.page", chips, chips, width - ui.u(3), ui.u(0.75))

    def paint(number: int) -> ChipColors:
        word, chosen = tokenized.words[number], number == index
        if word.control:
            return control_colors(ui)
        if not is_typed(tokenized, word.start):
            colors = template_colors(ui, number)
            return replace(colors, edge=ui.color("accent") if chosen else 0)
        return word_colors(ui, number, edge=chosen)

    low = imgui.get_content_region_avail().y < ui.u(80)
    height = min(page.height, (LINES_LOW if low else LINES) * page.pitch)
    imgui.begin_child("words", ImVec2(width, height), FLAT, imgui.WindowFlags_.no_saved_settings)
    pointed = draw_chips(ui, "tokenizer.word", chips, page, paint)
    clicked = pointed is not None and imgui.is_mouse_clicked(0)
    if pointed is not None:
        word = tokenized.words[pointed]
        facts = [
            (tr("As spelled in the vocabulary"), shown_as_spelled(word.spelled)),
            (tr("Tokens"), f"{len(word.pieces):,}"),
            (tr("Steps"), f"{steps_in(tokenized, pointed):,}"),
        ]
        draw_facts(ui, f"“{_words(tokenized, word)}”", facts)
    imgui.end_child()
    if clicked and pointed != choice.word:
        return replace(choice, word=pointed, step=0, playing=True)
    return choice


def _words(tokenized: TokenizedText, word: Word) -> str:
    characters = tokenized.text[word.start : word.end]
    return shown(characters) if characters else symbol_shown(word.spelled, tokenized.of_bytes)


def _chip(tokenized: TokenizedText, word: Word) -> Chip:
    breaks = tokenized.text[word.start : word.end].endswith("\n")
    return Chip(_words(tokenized, word), str(len(word.pieces)), breaks)


def _draw_steps(
    ui: Ui, tokenized: TokenizedText, word: Word, choice: TokenizerChoice
) -> TokenizerChoice:
    steps = word.steps
    last = 0 if steps is None else steps.count
    at = last if choice.step is None else min(choice.step, last)
    if last:
        choice = draw_player(ui, choice, at, last)
    wanted: int | None = None
    if isinstance(steps, MergeSteps):
        wanted = merges.draw(ui, tokenized, word, steps, at)
    elif isinstance(steps, Lattice):
        lattice.draw(ui, tokenized, word, steps, at)
    elif isinstance(steps, LongestMatches):
        draw_matches(ui, tokenized, word, steps, at)
    return choice if wanted is None else replace(choice, step=wanted, playing=False)


def draw_player(ui: Ui, choice: TokenizerChoice, at: int, last: int) -> TokenizerChoice:
    """Draw the player, with `at` steps of `last` done, and return what is to be shown next."""
    side, gap, wanted = ui.u(7), ui.u(0.5), at
    if icon_button(ui, "tokenizer.back", ICON_CHEVRON_LEFT, tr("Previous step"), side=side):
        wanted = max(0, at - 1)
    imgui.same_line(0, gap)
    icon = ICON_PAUSE if choice.playing else ICON_PLAY
    hint = tr("Stop") if choice.playing else tr("Play the steps")
    pressed = icon_button(ui, "tokenizer.play", icon, hint, side=side, active=choice.playing)
    imgui.same_line(0, gap)
    if icon_button(ui, "tokenizer.on", ICON_CHEVRON_RIGHT, tr("Next step"), side=side):
        wanted = min(last, at + 1)
    imgui.same_line(0, ui.u(2))
    imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() + ui.u(1))
    width = imgui.get_content_region_avail().x
    shown = tr("step {n:,} of {all:,}").format(n=at, all=last)
    slid = line_slider(ui, "tokenizer.step", wanted, (0, last), shown, width)
    if pressed:
        starts = not choice.playing
        ui.local(StepsShown).played = ui.now
        return replace(choice, playing=starts, step=0 if starts and at == last else at)
    if slid != at:
        return replace(choice, step=slid, playing=False)
    return _played(ui, choice, at, last) if choice.playing else choice


def _played(ui: Ui, choice: TokenizerChoice, at: int, last: int) -> TokenizerChoice:
    """Go to the next step once it is time."""
    if at >= last:
        return replace(choice, playing=False, step=last)
    pace = max(FASTEST, min(PACE, WHOLE / max(last, 1)))
    shown = ui.local(StepsShown)
    if shown.played is None:
        shown.played = ui.now
    since = ui.now - shown.played
    if 0 <= since < pace:
        ui.redraw_in(pace - since)
        return choice
    shown.played = ui.now
    ui.redraw_in(pace)
    return replace(choice, step=at + 1)


def draw_matches(
    ui: Ui, tokenized: TokenizedText, word: Word, found: LongestMatches, at: int
) -> None:
    """Draw the word after `at` look-ups."""
    tries = found.tries
    wrapped(ui, _sentence(word, found, at), "text")
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    _draw_word(ui, word, found, at)
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    if at >= len(tries):
        draw_word_tokens(ui, tokenized, word)
        imgui.dummy(ImVec2(0, ui.u(0.5)))
    _draw_tries(ui, word, found, at)


def _sentence(word: Word, found: LongestMatches, at: int) -> str:
    if found.too_long:
        return tr(TOO_LONG)
    if at == 0:
        return tr(START)
    start, end, hit = found.tries[at - 1]
    last = at == len(found.tries) and not hit
    words = HIT if hit else NOTHING if last else MISS
    return tr(words).format(candidate=shown(candidate(word.spelled, start, end, found.prefix)))


def _draw_word(ui: Ui, word: Word, found: LongestMatches, at: int) -> None:
    """Draw the characters: what is taken in the colours of tokens, the candidate framed."""
    taken = [(start, end) for start, end, hit in found.tries[:at] if hit]
    looked = found.tries[at - 1] if at else None
    corner, height = imgui.get_cursor_screen_pos(), ui.theme.text + ui.u(2)
    width, x, y = imgui.get_content_region_avail().x, 0.0, 0.0
    for number, char in enumerate(word.spelled[:400]):
        part = next((n for n, (a, b) in enumerate(taken) if a <= number < b), None)
        colors = word_colors(ui, part, 1) if part is not None else _plain(ui)
        if looked is not None and looked[0] <= number < looked[1]:
            edge = ui.color("good" if looked[2] else "warning")
            colors = ChipColors(colors.fill, colors.text, colors.below, edge)
        with ui.font():
            wide = imgui.calc_text_size(shown(char)).x + ui.u(2)
        if x + wide > width:
            x, y = 0.0, y + height + ui.u(0.5)
        spot = (corner.x + x, corner.y + y)
        draw_chip(ui, Chip(shown(char)), spot, (wide, height), colors)
        x += wide + ui.u(0.25)
    imgui.dummy(ImVec2(width, y + height))
    ui.mark("tokenizer.matching")


def _plain(ui: Ui) -> ChipColors:
    return ChipColors(ui.color("hover"), ui.color("text"), ui.color("muted"))


def _draw_tries(ui: Ui, word: Word, found: LongestMatches, at: int) -> None:
    """Draw what was looked up, the newest first; only lines in sight are drawn."""
    corner, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    small = ui.theme.size("small")
    row = float(round(small * 1.6))
    low, high = draw.get_clip_rect_min().y, draw.get_clip_rect_max().y
    for line, (start, end, hit) in enumerate(reversed(found.tries[:at])):
        y = corner.y + line * row
        if y + row < low or y > high:
            continue
        color = ui.color("good" if hit else "faint")
        icon, font = ICON_CHECK if hit else ICON_CLOSE, ui.fonts["bold" if hit else "regular"]
        draw.add_text(font, small, ImVec2(corner.x + ui.u(1), round(y)), color, icon)
        words = shown(candidate(word.spelled, start, end, found.prefix))
        ink = ui.color("text" if hit else "muted")
        draw.add_text(font, small, ImVec2(corner.x + ui.u(7), round(y)), ink, words)
    imgui.dummy(ImVec2(imgui.get_content_region_avail().x, row * at))
