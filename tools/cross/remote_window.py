"""Pictures of the window with an engine elsewhere: `python -m tools.cross.remote_window FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.attention.rows import ROWS
from llm_lite.desktop.features.cache.model import ColorCache, measured
from llm_lite.desktop.features.chat.model import NewChat, Send
from llm_lite.desktop.features.lesson.model import FollowPosition, ShowLesson, lesson_page
from llm_lite.desktop.features.program.model import (
    DismissNotice,
    OpenModel,
    SetLanguage,
    SetTheme,
)
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization.model import ShowRuns
from llm_lite.desktop.features.remote.host import RemoteHost
from llm_lite.desktop.features.remote.model import Disconnect, FindServer
from llm_lite.desktop.features.remote.view import ServerFields
from llm_lite.desktop.features.tokens.lens import LENS
from llm_lite.desktop.features.tokens.model import SetXRay
from llm_lite.desktop.features.tokens.state import XRay
from llm_lite.desktop.render.png import write_png
from llm_lite.server.config import ServerConfig
from tests.core.remote.servers import scripted
from tests.desktop.engine.answers import ANSWER, pieces_of
from tests.desktop.engine.engine import ScriptedEngine
from tests.server.conftest import Served
from tests.server.scripted_service import ScriptedService
from tools.tour.input_driver import InputDriver
from tools.tour.offscreen_app import OffscreenApp

THEMES = (("dark", "en"), ("light", "en"), ("dark", "ko"))


class Pictures:
    def __init__(self, folder: Path, theme: str, language: str) -> None:
        self.folder, self.name = folder, f"{theme}-{language}"
        self.app = OffscreenApp(AppState(), Settings())
        self.program = self.app.program
        self.driver = InputDriver(self.program, lambda: self.app.draw() and None)
        self.program.use("remote", RemoteHost(lambda: None))
        self.program.start(ScriptedEngine(delay=0.0))
        self.program.do(SetTheme(theme))  # type: ignore[arg-type]
        self.program.do(SetLanguage(language))
        self.program.do(OpenModel(None))
        self.driver.wait("the model", lambda s: s.model is not None)

    def take(self, name: str) -> None:
        for notice in self.driver.state.notices:
            self.program.do(DismissNotice(notice.id))
        self.driver.frames(8)
        write_png(self.folder / f"{name}-{self.name}.png", self.app.target.read_rgba())

    def type_address(self, url: str) -> None:
        self.driver.click("remote.close")
        self.program.interface.ui.local(ServerFields).address = ServerFields().address
        self.driver.click("remote.connect")
        self.driver.click("remote.address")
        self.driver.type(url)

    def play(self) -> None:
        driver = self.driver
        words = pieces_of(ANSWER.replace("meets", "finds"))
        with (
            scripted(
                "vllm", words=lambda body: words, thoughts=("Short waves", " scatter.")
            ) as one,
            scripted("lm-studio") as several,
        ):
            driver.click("chat.model")
            self.take("01-models")
            driver.click("remote.connect")
            driver.type("gpu-box:8000")
            self.take("02-connect")
            self.type_address(several.url)
            driver.click("remote.go")
            driver.wait("models", lambda s: s.remote.found is not None)
            self.take("03-found")
            self.type_address(one.url)
            driver.click("remote.go")
            driver.wait("the server", lambda s: s.elsewhere)
            self.take("04-connected")
            driver.click("models.close")
            self.program.do(Send("Why is the sky blue?"))
            driver.wait("the answer", lambda s: not s.busy)
            for view in ("attention", "lens", "kv_cache", "quantization"):
                driver.click(f"tab.{view}")
                driver.click("tab.performance" if view == "lens" else "tab.steer")
                self.take(f"05-{view}")
            driver.click("status.executor")
            self.take("06-executor")
            driver.click("executor.close")
            xray = replace(driver.state.xray, shown=True, probabilities=True)
            self.program.do(SetXRay(xray))
            self.take("07-xray")
            driver.click("rail.sampler")
            self.take("08-sampler")
            driver.click("sampler.close")
            self.program.do(SetXRay(replace(xray, shown=False)))
            self.program.do(NewChat())
            self.take("09-new")
            self.program.do(ShowRuns(True))
            self.take("10-runs")
            driver.click("runs.prompt")
            driver.type("Why is the sky blue?")
            driver.click("runs.start")
            driver.wait("both", lambda s: s.quantization.comparison and not s.quantization.work)
            driver.leave()
            self.take("10-runs-done")
        self.program.do(Send("And now?"))
        driver.wait("a refusal", lambda s: not s.busy)
        driver.frames(5)
        write_png(self.folder / f"11-refused-{self.name}.png", self.app.target.read_rgba())

    def play_ours(self) -> None:
        """Another llm-lite: its maps, lens and cache open here."""
        driver = self.driver
        question = "Why is the sky blue? Short waves are scattered much more than long ones."
        served = Served(ScriptedService(name="qwen3-8b-int4"), ServerConfig(port=0))
        try:
            self.program.do(FindServer(served.url))
            driver.wait("the server", lambda s: s.elsewhere)
            self.program.do(Send(question))
            driver.wait("the answer", lambda s: not s.busy and s.remote.cache is not None)
            driver.click("tab.attention")
            driver.click("tab.head")
            driver.click("attention.0.1")
            self.wait_for_maps()
            driver.leave()
            self.take("20-maps")
            driver.click("tab.lens")
            driver.wait("the lens", lambda s: LENS.answer(s) is not None)
            driver.leave()
            self.take("21-lens")
            driver.click("tab.kv_cache")
            self.take("22-cache")
            self.program.do(ColorCache("key-norm", False))
            driver.wait("the norms", lambda s: measured(s) is not None)
            self.take("22-norms")
            self.program.do(FollowPosition(9))
            self.program.do(ShowLesson(True))
            driver.wait("the trace", lambda s: lesson_page(s).trace is not None)
            self.take("22-lesson")
            self.program.do(ShowLesson(False))
            driver.click("tab.attention")
            choice = replace(driver.state.attention, large=True, exclude_first=True)
            self.program.do(SetAttention(choice))
            driver.frames(3)
            self.wait_for_maps()
            self.take("23-large")
            self.program.do(SetAttention(replace(choice, large=False)))
            self.program.do(SetXRay(replace(driver.state.xray, shown=True)))
            driver.frames(4)
            driver.point("token.1.5")
            driver.wait("rows", lambda s: ROWS.answer(s) is not None, 20)
            self.take("24-xray")
            driver.leave()
        finally:
            served.close()

    def wait_for_maps(self) -> None:
        self.driver.frames(3)
        maps = self.program.interface.ui.maps
        assert maps is not None
        self.driver.wait("maps", lambda s: not maps.pending)

    def close(self) -> None:
        if self.program.remote is not None:
            self.program.remote.close()
        if self.program.engine is not None:
            self.program.engine.close()
        self.app.close()


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for theme, language in THEMES:
        one = Pictures(folder, theme, language)
        try:
            one.play_ours()
            one.program.do(NewChat())
            one.program.do(Disconnect())
            one.driver.wait("the model", lambda s: s.model is not None)
            one.program.do(SetXRay(XRay()))
            one.play()
        finally:
            one.close()


if __name__ == "__main__":
    main()
