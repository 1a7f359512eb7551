"""Running text laid out by us: blocks of wrapped lines, measured once and kept.

Positions are in pixels from the upper left corner of the text. A block's layout depends on the
block, the width and the text size only, so of an answer that is being written only the last block
is laid out again, and of that only the last lines. Formulas arrive later: what holds one is laid
out again when one has arrived.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct, field

from llm_lite.desktop.widgets.markdown.blocks import QUOTE, Block, StyledSpan
from llm_lite.desktop.widgets.markdown.characters import Span
from llm_lite.desktop.widgets.markdown.code_frame import CodeFrames
from llm_lite.desktop.widgets.markdown.drawing import PageDrawing
from llm_lite.desktop.widgets.markdown.growing import GrowingText
from llm_lite.desktop.widgets.markdown.layout import LaidText, Setting, gap, lay_out
from llm_lite.desktop.widgets.markdown.reading import Reader
from llm_lite.desktop.widgets.markdown.wrapping import Wrapping
from llm_lite.desktop.widgets.markup.code_colors import CodeColors
from llm_lite.desktop.widgets.markup.formulas import Formulas
from llm_lite.desktop.widgets.ui import Ui

CACHE_PAGES, CACHE_BLOCKS = 512, 4096
ASKED = 8  # texts whose blocks are kept, without a layout
GROWING = 4  # texts that are written at the same time
POLL = 0.03  # seconds until what is waited for may be there
T = TypeVar("T")


class Page(Struct, frozen=True):
    blocks: tuple[tuple[float, LaidText], ...]  # y, block
    height: float
    width: float  # of the widest line
    live: bool = False
    epoch: int | None = None  # of the formulas, where there are any


class _Pagination(Struct):
    """The blocks of a page, placed one below the other, and what is known of the first ones: of a
    page that grows, these stay where they are."""

    setting: tuple[Any, ...] = ()
    blocks: tuple[Block, ...] = ()
    placed: list[tuple[float, LaidText]] = field(default_factory=list)
    widest: list[float] = field(default_factory=list)  # of the lines so far
    full: list[bool] = field(default_factory=list)  # some block takes the whole width
    math: list[bool] = field(default_factory=list)  # some block has a formula

    def common(self, setting: tuple[Any, ...], blocks: tuple[Block, ...]) -> int:
        """Return how many first blocks are the same ones, at the same places."""
        if setting != self.setting:
            return 0
        pairs = enumerate(zip(self.blocks, blocks, strict=False))
        both = min(len(self.blocks), len(blocks))
        return next((n for n, (a, b) in pairs if a is not b), both)

    def keep(self, count: int) -> None:
        for kept in (self.placed, self.widest, self.full, self.math):
            del kept[count:]

    def add(self, y: float, laid: LaidText) -> None:
        before = len(self.placed) - 1
        widest = max((run.x + run.width for run in laid.runs), default=0.0)
        full = laid.block.kind in ("code", "rule", "table")
        math = laid.block.math
        if before >= 0:
            widest = max(widest, self.widest[before])
            full, math = full or self.full[before], math or self.math[before]
        self.placed.append((y, laid))
        self.widest.append(widest)
        self.full.append(full)
        self.math.append(math)


class RichText:
    """Lays out and draws Markdown; one for a window."""

    def __init__(self) -> None:
        self.formulas = Formulas()
        self.colors = CodeColors(self.formulas.process)
        self._blocks: dict[Any, LaidText] = {}
        self._pages: dict[Any, Page] = {}
        self._live: dict[Any, Page] = {}
        self._unlaid: dict[Any, tuple[Block, ...]] = {}  # blocks without a layout
        self._wrapping = Wrapping()
        self._paginations: list[_Pagination] = []  # of the texts that were shown last
        self._reader = Reader()
        self._texts: list[GrowingText] = []

    def begin(self, ui: Ui) -> None:
        """Begin a frame, before its first call."""
        self.formulas.begin()
        if self.formulas.process.busy:
            ui.redraw_in(POLL)

    def height_key(self, ui: Ui) -> tuple[bool, int]:
        """Return what heights depend on, beside the text, its width and size."""
        return ui.local(CodeFrames).numbered, self.formulas.epoch

    def page(
        self,
        ui: Ui,
        text: str,
        width: float,
        *,
        plain: bool = False,
        live: bool = False,
        quoted: bool = False,
    ) -> Page:
        """The layout of `text` in `width` pixels; `plain` text has no Markdown in it, nor has
        `quoted`, which is one quotation.

        Of a `live` text, which will be another one in the next frame, only whole blocks are kept.
        """
        key = (text, width, ui.theme.text, plain, quoted, ui.local(CodeFrames).numbered)
        cache = self._live if live else self._pages
        page = cache.get(key)
        if page is None or page.epoch not in (None, self.formulas.epoch):
            blocks = self._read(text, plain, quoted, live)
            page = self._paginate(ui, blocks, width, live)
            _keep(cache, key, page, 1 if live else CACHE_PAGES)
        return page

    def draw(
        self, ui: Ui, page: Page, x: float, y: float, width: float, name: str,
        selected: Span | None = None,
    ) -> None:  # fmt: skip
        """Draw the blocks of `page` that can be seen, with its corner at (x, y) on the screen, and
        what is selected of its characters."""
        drawing = PageDrawing(ui, self.colors, name, page.live, selected)
        drawing.blocks(page.blocks, x, y, width)

    def blocks(self, text: str, *, plain: bool = False, quoted: bool = False) -> tuple[Block, ...]:
        """Return what is shown of `text`, as for `page`."""
        key = (text, plain, quoted)
        found = self._unlaid.get(key)
        if found is None:
            found = self._read(text, plain, quoted, False)
            _keep(self._unlaid, key, found, ASKED)
        return found

    def _read(self, text: str, plain: bool, quoted: bool, live: bool) -> tuple[Block, ...]:
        if quoted:
            spans = (StyledSpan(text),)
            return (Block("paragraph", spans, path=(QUOTE,), markers=("",)),)
        if plain:
            return (Block("paragraph", (StyledSpan(text),)),)
        known = [one for one in self._texts if one.follows(text)]
        one = max(known, key=lambda one: len(one.text), default=None)
        if one is None:
            one = GrowingText(self._reader)
        if live:  # what was written last stays known when it is done
            self._texts = [*(other for other in self._texts if other is not one), one][-GROWING:]
        return one.read(text, live=live)

    def _paginate(self, ui: Ui, blocks: tuple[Block, ...], width: float, live: bool) -> Page:
        setting = Setting(width, ui.local(CodeFrames).numbered, self.formulas)
        known = self.formulas.epoch  # before: more may arrive meanwhile
        fit = (width, setting.numbers, ui.theme.text, known)
        alike = [(one.common(fit, blocks), one) for one in self._paginations]
        count, one = max(alike, key=lambda pair: pair[0], default=(0, _Pagination()))
        if not count:
            one = _Pagination()
        # What a live page ends with may be another block soon.
        count = min(count, max(0, len(one.blocks) - 1))
        one.keep(count)
        y = one.placed[-1][0] + one.placed[-1][1].height if count else 0.0
        before = blocks[count - 1] if count else None
        for number, block in enumerate(blocks[count:], count):
            y += gap(ui, before, block)
            if live and number == len(blocks) - 1:
                laid = lay_out(ui, block, setting, self._wrapping.wrap)
            else:
                laid = self._laid(ui, block, setting)
            one.add(y, laid)
            y += laid.height
            before = block
        one.setting, one.blocks = fit, blocks
        others = [other for other in self._paginations if other is not one]
        self._paginations = [*others[1 - GROWING :], one] if live else others
        if not blocks:
            return Page((), 0.0, 0.0, live)
        epoch = known if one.math[-1] else None
        widest = width if one.full[-1] else one.widest[-1]
        return Page(tuple(one.placed), y, widest, live, epoch)

    def _laid(self, ui: Ui, block: Block, setting: Setting) -> LaidText:
        epoch = self.formulas.epoch if block.math else 0
        numbers = setting.numbers and block.kind == "code"
        key = (block, setting.width, ui.theme.text, numbers, epoch)
        laid = self._blocks.get(key)
        if laid is None:
            laid = lay_out(ui, block, setting)
            _keep(self._blocks, key, laid, CACHE_BLOCKS)
        return laid


class RichTexts(Struct):
    made: dict[str, RichText] = field(default_factory=dict)  # by the name of the view


def rich_text(ui: Ui, name: str = "rich_text") -> RichText:
    """Return the rich text of a view, made when it is first needed."""
    made = ui.local(RichTexts).made
    if name not in made:
        made[name] = RichText()
    return made[name]


def _keep(cache: dict[Any, T], key: Any, value: T, limit: int) -> None:
    """Remember `value`; the oldest goes when there are too many."""
    cache[key] = value
    if len(cache) > limit:
        del cache[next(iter(cache))]
