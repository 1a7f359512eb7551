"""The program on an offscreen surface, and the way that the tour takes through it."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.gpu.commands import CommandPool
from llm_lite.core.gpu.device import Device
from llm_lite.core.messages import EngineOptions, Event, ModelLoaded, SamplingOptions, TokenDecoded
from llm_lite.core.records import asdict, replace
from llm_lite.desktop.app.program import lists, open_first_model, with_lists
from llm_lite.desktop.app.screen import Screen
from llm_lite.desktop.app.settings import DEFAULTS, parse, restore
from llm_lite.desktop.attention.maps import AttentionMaps
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.attention.state import FigureName, Head
from llm_lite.desktop.features.attention.state_cells import STATES
from llm_lite.desktop.features.experts.model import ROUTING
from llm_lite.desktop.features.program.model import (
    DismissNotice,
    ExportAttention,
    SetTheme,
)
from llm_lite.desktop.features.program.rail import PANELS
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.quantization.model import ShowRuns
from llm_lite.desktop.features.registry import VIEWS
from llm_lite.desktop.features.steer.view import EFFECT
from llm_lite.desktop.features.tokens.lens import LENS
from llm_lite.desktop.render.png import read_png, write_png
from llm_lite.desktop.widgets.frame_times import percentiles
from tools.tour.input_driver import PATIENCE, InputDriver, InputDriverError
from tools.tour.offscreen_app import SMALL as FIRST
from tools.tour.offscreen_app import OffscreenApp
from tools.tour.scenes.cache import look_at_cache
from tools.tour.scenes.composing import look_at_composing
from tools.tour.scenes.encoding import (
    bundled_encoder,
    look_at_encoder,
    look_at_lesson,
    look_at_targets,
    open_encoder,
)
from tools.tour.scenes.history import fill, look_at_history, open_first
from tools.tour.scenes.inspect import has_tokens, look_at_tokenizer, look_inside
from tools.tour.scenes.layouts import (
    ask_in_korean,
    look_at_large_korean,
    look_at_layouts,
)
from tools.tour.scenes.library import look_at_library, look_at_serving
from tools.tour.scenes.quantization import (
    leave,
    look_at_modes,
    look_at_step,
    point_at_parting,
    scroll_to,
)
from tools.tour.scenes.sampling import look_at_choices, look_at_sampling
from tools.tour.scenes.tools import look_at_answers

LEAST_ANSWER = 8  # tokens


class MeasuredStage(Struct):
    """Frame times by what the engine did meanwhile, in ms; moments in s after process start."""

    frames: dict[str, list[float]] = field(
        default_factory=lambda: {"idle": [], "prefill": [], "decode": []}
    )
    startup: dict[str, float] = field(default_factory=dict)
    recorded_during_decode: int = 0

    def report(
        self, state: AppState, answer: Message | None, device: Device, screen: Screen
    ) -> dict[str, Any]:
        """Return a JSON report: the answer (an encoder writes none), its executor and device, times
        and counts."""
        info, maps = device.info, screen.maps
        return {
            "answer": answer.text if answer else "",
            "tokens": [token.id for token in answer.tokens] if answer else [],
            "stop_reason": answer.stop_reason if answer else None,
            "stats": asdict(answer.stats) if answer and answer.stats else {},
            "model": state.model.name if state.model else "",
            "executor": asdict(state.executor) if state.executor else {},
            "device": {
                "name": info.name,
                "kind": info.kind,
                "driver": info.driver,
                "api_version": str(info.api_version),
            },
            "frame_ms": {name: percentiles(times) for name, times in self.frames.items()},
            "frames_drawn": screen.loop.frames,
            "command_buffers_recorded_during_decode": self.recorded_during_decode,
            "attention": {
                "bytes_read_back_for_maps": maps.read_back["maps"],
                "bytes_read_back_for_the_pointer": maps.read_back["pointer"],
                "bytes_read_back_for_scores": maps.read_back["scores"],
                "memory": maps.memory,
            },
            "startup": self.startup,
        }


PROMPT = "Why is the sky blue? Answer in three sentences."
LARGE = (3840, 2160, 2.0)  # width, height, scale
SMALL = (1600, 1000, 1.0)
SAMPLING = SamplingOptions(seed=1, max_new_tokens=160)
LOAD_LIMIT, ANSWER_LIMIT = PATIENCE, 900.0  # seconds
FIGURED: tuple[Head, ...] = ((0, 1), (1, 1), (2, 1), (1, 2))
IDLE_SECONDS = 2.0


class Stage:
    """The program on an offscreen surface, and what is noted while the tour goes on."""

    def __init__(
        self,
        options: EngineOptions,
        sampling: SamplingOptions,
        process_start: float,
        language: str = "en",
    ) -> None:
        self._start = process_start
        self._pictures: dict[str, Any] = {}
        self._engine: Any = None
        self._phase = ""
        self.measured = MeasuredStage()
        self.answer: Message | None = None
        self._reported: dict[str, Any] = {}
        settings = parse(json.loads(DEFAULTS.read_text("utf-8")), Settings(), [])
        state = restore(replace(settings, language=language), AppState())
        state = replace(state, options=options, sampling=sampling)
        self._backstage = OffscreenApp(state, settings, device=options.device)
        self.program, self.device = self._backstage.program, self._backstage.device
        self._screen = self._backstage.screen
        self.program.on_event = self._note
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.driver = InputDriver(self.program, self._draw)

    def play(self, source: str | None, prompt: str, engine: Any) -> None:
        """Run the tour of the given model; the default model's is followed by an encoder's."""
        self._begin(source, engine)
        self._load(prompt)
        if self.driver.state.encodes or self.driver.state.writes_targets:
            self._look_at_texts()
            self._reported = self._report()
            return
        self._send_prompt()
        self._look_around()
        ask_in_korean(self.driver, self._picture)
        self._runs("09-runs-13px-dark")
        self._large()
        self._look_at_choices()
        self._reported = self._report()
        if source is None and bundled_encoder(self.driver.state):
            open_encoder(self.driver)
            self._look_at_texts()

    def _begin(self, source: str | None, engine: Any) -> None:
        """Draw the first frame, then start the engine."""
        open_first_model(self.program, source)
        self._draw()
        self._screen.loop.wait()
        self._moment("first_frame_s")
        if engine is None:
            from llm_lite.core.engine.engine import Engine

            engine = Engine
        self._begin_history()
        self._engine = engine(self.device, lambda: None)
        self.program.start(self._engine)
        self.driver.frames()
        self._picture("01-loading")

    def _begin_history(self) -> None:
        """Open a history of examples in the tour's temporary folder."""
        from llm_lite.desktop.features.history.host import HistoryHost

        path = Path(self._folder.name) / "history.db"
        fill(path)
        self.program.use("history", HistoryHost(path, lambda: None))

    def _load(self, prompt: str) -> None:
        """Write the prompt into the input while the model loads."""
        driver = self.driver
        try:
            driver.click("chat.input")
            driver.type(prompt)
        except InputDriverError:  # a small model that holds no conversation was there before
            if driver.state.holds_conversations:
                raise
        driver.wait("the model", lambda s: s.load is None, LOAD_LIMIT, pace=0.0)
        if self.driver.state.model is None:
            problems = [notice.text for notice in self.driver.state.notices]
            raise LlmLiteError(problems[-1] if problems else "the model could not be loaded")

    def _send_prompt(self) -> None:
        driver = self.driver
        driver.click("chat.send")
        driver.wait("the first token", has_tokens(1), ANSWER_LIMIT)
        self._decode()
        self.program.state = with_lists(self.program.state, lists())
        driver.leave()
        self._picture("03-answer")
        self._phase = "idle"
        end = time.monotonic() + IDLE_SECONDS
        driver.wait("a while", lambda s: time.monotonic() > end, ANSWER_LIMIT)
        self._phase = ""

    def _decode(self) -> None:
        before = self._recorded_by_engine()
        self.driver.wait("some tokens", has_tokens(24), ANSWER_LIMIT)
        self._picture("02-writing")
        self.driver.wait("the answer", lambda s: not s.busy, ANSWER_LIMIT)
        self.measured.recorded_during_decode = self._recorded_by_engine() - before
        self.answer = self.driver.state.messages[-1]
        check_answer(self.driver.state, self.answer)

    def _recorded_by_engine(self) -> int:
        """Return how many command buffers the engine recorded: all but those of frames and
        pictures."""
        return CommandPool.all_recorded - self._screen.loop.recorded - len(self._pictures)

    def _look_around(self) -> None:
        """Show every view and every popover in the dark theme, then in the light one."""
        driver = self.driver
        for view in (view for view in VIEWS if view.place not in ("middle", "left", "beside")):
            if view.place == "lower right":  # what is above stays the same
                driver.click("tab.attention")
            driver.click(f"tab.{view.name}")
            if view.name == "performance":  # its beginning is below the attention maps already
                scroll_to(driver, "performance.frames")
            driver.leave()
            if view.name == "lens":
                driver.wait("the lens", lambda s: LENS.answer(s) is not None, ANSWER_LIMIT)
            self._picture(f"04-{view.name}")
        look_at_tokenizer(driver, self._picture)
        look_at_step(driver, self._picture)
        self._look_at_attention()
        look_inside(driver, self._picture, lambda: self._figure("text"))
        look_at_cache(driver, self._picture)
        look_at_history(driver, self._picture, "05-conversations")
        look_at_modes(driver, self._picture)
        leave(driver)
        driver.click("tab.attention")
        driver.click("tab.performance")
        for panel in PANELS:
            self._popover(panel.opener, panel.name)
        look_at_sampling(driver, self._picture)
        kept = Path(self._folder.name)
        look_at_composing(driver, self._picture, kept, "05")
        self._popover("status.executor", "executor")
        look_at_answers(driver, self._picture, "05")
        look_at_serving(driver, self._picture, "05")
        look_at_library(driver, self._picture, "15-models", "-dark")
        look_at_layouts(driver, self._picture, "dark")
        driver.click("rail.theme")
        driver.leave()
        self._picture("06-light")
        open_first(driver)
        look_at_layouts(driver, self._picture, "light")
        look_at_history(driver, self._picture, "06-conversations", "-light")
        look_at_answers(driver, self._picture, "06", "-light")
        look_at_serving(driver, self._picture, "06", "-light")
        look_at_library(driver, self._picture, "15-models", "-light")
        look_at_composing(driver, self._picture, kept, "06", "-light")
        driver.click("rail.new_chat")
        for notice in driver.state.notices:
            driver.click(f"notice.{notice.id}.close")
        driver.leave()
        self._picture("07-new-chat-light")
        look_at_lesson(driver, self._picture)

    def _look_at_attention(self) -> None:
        """Show the grid, a head under the pointer, two locked heads, and the large view."""
        driver = self.driver
        driver.click("tab.attention")
        driver.click("tab.head")
        heads = [f"{layer}.{head}" for layer, head in self._known(FIGURED[:2])]
        driver.point(f"attention.{heads[0]}")
        self._complete()
        self._picture("04-attention-hover")
        for head in heads:
            driver.click(f"attention.{head}")
        driver.leave()
        self._complete()
        self._picture("04-attention-heads")
        self._choose(large=True, row=max(self._maps().length - 8, 0))
        self._picture("04-attention-large")
        self._choose(row=None)
        self._zoom(f"head.{heads[0]}")
        self._picture("04-attention-zoomed")
        driver.click("head.all")
        self._choose(large=False)
        self._choose(locked=self._known(FIGURED))
        self._figure("grid")
        self._figure("heads")
        self._choose(locked=self._known(FIGURED[:2]))
        model = driver.state.model
        if model is not None and model.delta_layers:
            self._look_at_states(model.delta_layers)
        if model is not None and model.experts:
            self._look_at_experts()

    def _look_at_experts(self) -> None:
        """Show which experts the tokens chose, and one that is switched off."""
        driver = self.driver
        driver.click("tab.experts")
        driver.wait("the experts", lambda s: ROUTING.answer(s) is not None)
        driver.point("experts.grid")
        self._picture("04-experts")
        driver.click("experts.grid")
        scroll_to(driver, "experts.switch.off", "experts")
        driver.click("experts.switch.off")
        driver.leave()
        driver.wait("its effect", lambda s: EFFECT.answer(s) is not None)
        self._picture("04-experts-off")
        driver.click("experts.reset")
        driver.wait("the gains", lambda s: not s.steering.interventions)
        driver.click("tab.attention")

    def _look_at_states(self, layers: Sequence[int]) -> None:
        """Show a head of a recurrent state, with the pointer on its map, and in the large view."""
        driver = self.driver
        driver.wait("the states", lambda s: STATES.answer(s) is not None)
        driver.click(f"state.{layers[0]}.0")
        driver.wait("its map", lambda s: driver.shows("state.map"))
        driver.point("state.map")
        self._picture("04-state")
        self._choose(large=True)
        driver.leave()
        self._picture("04-state-large")
        self._choose(large=False, state_head=None)

    def _zoom(self, name: str) -> None:
        """Enlarge a map until single tokens are visible, with the pointer on a cell."""
        self.driver.point(name)
        self.driver.wheel(13.0)
        self._complete()

    def _known(self, heads: tuple[Head, ...]) -> tuple[Head, ...]:
        """Return those of `heads` that the model has, or the first head if it has none of them."""
        layers = self._maps().layers
        known = tuple((at, h) for at, h in heads if at < len(layers) and h < layers[at].heads)
        return known or ((next(at for at, layer in enumerate(layers) if layer.attends), 0),)

    def _figure(self, view: FigureName, name: str = "") -> None:
        """Export a view as a figure and keep it as a picture."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{view}.png"
            self.program.do(ExportAttention(view, "png", str(path)))
            self.driver.wait("the figure", lambda s: path.exists(), PATIENCE)
            self._pictures[name or f"13-figure-{view}"] = read_png(path)
        for notice in self.driver.state.notices:
            self.program.do(DismissNotice(notice.id))

    def _choose(self, **changes: Any) -> None:
        self.program.do(SetAttention(replace(self.program.state.attention, **changes)))
        self.driver.frames(2)
        self._complete()

    def _maps(self) -> AttentionMaps:
        return self._screen.maps

    def _complete(self) -> None:
        """Draw until the maps on the screen are complete."""
        self.driver.frames(4)
        self.driver.wait("the maps", lambda s: not self._maps().pending, PATIENCE, pace=0.0)
        self.driver.frames(2)

    def _popover(self, opener: str, name: str) -> None:
        self.driver.click(opener)
        self.driver.rect(name)
        self.driver.leave()
        self._picture(f"05-{name}")
        self.driver.click(f"{name}.close")

    def _large(self) -> None:
        """Take pictures on a dense screen, with text of 26 pixels."""
        self._backstage.resize(*LARGE)
        self.driver.frames(3)
        look_at_large_korean(self.driver, self._picture)
        self._popover("rail.sampler", "sampler")
        self.driver.leave()
        for theme in ("dark", "light"):
            self.program.do(SetTheme(theme))
            self._choose(large=True, exclude_first=True)
            self._picture(f"12-attention-{theme}")
        self._choose(large=False)
        self.program.do(SetTheme("light"))
        self._runs("12-runs-light")

    def _look_at_choices(self) -> None:
        self._backstage.resize(*SMALL)
        self.driver.frames(3)
        for theme in ("light", "dark"):
            self.program.do(SetTheme(theme))
            look_at_choices(self.driver, self._picture, f"14-choices-{theme}")

    def _look_at_texts(self) -> None:
        """Show the page of a model that holds no conversation."""
        self._backstage.resize(*FIRST)
        self.driver.frames(3)
        if self.driver.state.writes_targets:
            look_at_targets(self.driver, self._picture, self._complete)
            return
        look_at_encoder(self.driver, self._picture, lambda name: self._figure("text", name))

    def _runs(self, name: str) -> None:
        """Show the comparison of two runs that was made before."""
        self.program.do(ShowRuns(True))
        self.driver.frames(6)
        point_at_parting(self.driver)
        self._picture(name)
        self.driver.leave()
        self.program.do(ShowRuns(False))
        self.driver.frames(6)
        self.driver.click("tab.attention")

    def _draw(self) -> None:
        took = self._backstage.draw()
        running = self.program.state.running
        if (phase := running.phase if running else self._phase) in self.measured.frames:
            self.measured.frames[phase].append(took)

    def _picture(self, name: str) -> None:
        while name in self._pictures:
            name += "-large"
        self.driver.frames(2)
        self._pictures[name] = self._backstage.target.read_rgba()

    def _note(self, event: Event, now: float) -> None:
        if isinstance(event, ModelLoaded):
            self._moment("model_ready_s")
        elif isinstance(event, TokenDecoded):
            self._moment("first_token_s")

    def _moment(self, name: str) -> None:
        self.measured.startup.setdefault(name, round(time.monotonic() - self._start, 3))

    def report(self) -> dict[str, Any]:
        return self._reported

    def _report(self) -> dict[str, Any]:
        """Report on the model in use."""
        screen = self._screen
        return self.measured.report(self.program.state, self.answer, self.device, screen)

    def write_pictures(self, directory: Path) -> list[str]:
        for name, pixels in self._pictures.items():
            write_png(directory / f"{name}.png", pixels)
        return [f"{name}.png" for name in self._pictures]

    def close(self) -> None:
        """Close the engine first, as it uses the device, then the rest."""
        if self._engine is not None:
            self._engine.close(5.0)
        if self.program.history is not None:
            self.program.history.end()
            self.program.history.finish(5.0)
        self._folder.cleanup()
        self._backstage.close()


def check_answer(state: AppState, answer: Message) -> None:
    """Raise LlmLiteError if the answer is too short to be inspected."""
    written = len(answer.tokens)
    if written < LEAST_ANSWER:
        notices = [notice.text for notice in state.notices]
        why = answer.problem or (notices[-1] if notices else "ask something else with --prompt")
        raise LlmLiteError(
            f"the tour needs an answer of at least {LEAST_ANSWER} tokens, this model's has "
            f"{written}: {why}"
        )
