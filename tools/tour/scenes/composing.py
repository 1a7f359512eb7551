"""The tour's way through what goes into a draft: files with their budget, prompts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from imgui_bundle import imgui

from llm_lite.core.files.writing import make_folder, write_file
from llm_lite.desktop.features.attachments.model import AttachFiles, RemoveFiles, budget
from llm_lite.desktop.features.chat.model import SetDraft
from llm_lite.desktop.features.program.model import DismissNotice
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.prompts.host import PromptFiles
from tools.tour.input_driver import PATIENCE, InputDriver

Picture = Callable[[str], None]
QUESTION = "What do these have in common?"
DAYS = range(30)
NOTES = "# Tide tables\n\nHigh water at the bridge:\n\n" + "\n".join(
    f"- day {day}: {5 + day // 2:02}:{day * 7 % 60:02}, {3 + day % 4 / 4:.2f} m" for day in DAYS
)
CODE = '''def height(hours: float) -> float:
    """Of the water in metres, so long after high water."""
    return 3.2 * cos(2 * pi * hours / 12.42)
'''
LINE = b"%6d  The gauge was read again, and the water stood a little higher than before.\n"
PNG = b"\x89PNG\r\n\x1a\n"


def fill_folder(folder: Path) -> list[str]:
    """Write files to attach; the last does not fit the context of a small model."""
    make_folder(folder)
    files = {
        "tide tables.md": NOTES.encode(),
        "height.py": CODE.encode(),
        "the bridge.png": PNG,
        "gauge log of the whole year.txt": b"".join(LINE % n for n in range(12_000)),
    }
    for name, content in files.items():
        write_file(folder / name, content)
    return [str(folder / name) for name in files]


def look_at_composing(
    driver: InputDriver, picture: Picture, folder: Path, name: str, after: str = ""
) -> None:
    """Show files and prompts in the draft, then empty it."""
    _look_at_files(driver, picture, fill_folder(folder / "files"), name, after)
    _look_at_prompts(driver, picture, folder / "prompts", name, after)
    for notice in driver.state.notices:
        driver.program.do(DismissNotice(notice.id))
    driver.leave()


def _look_at_files(
    driver: InputDriver, picture: Picture, paths: list[str], name: str, after: str
) -> None:
    program = driver.program
    program.do(SetDraft(QUESTION))
    program.do(AttachFiles(tuple(paths[:-1])))
    driver.wait("the files", _is_counted, PATIENCE)
    picture(f"{name}-files{after}")
    first = program.state.files.files[0].key
    driver.click(f"attachment.{first}")
    driver.leave()
    picture(f"{name}-file-preview{after}")
    driver.press(imgui.Key.escape)
    program.do(AttachFiles((paths[-1],)))
    driver.wait("the long file", _is_counted, PATIENCE)
    picture(f"{name}-files-too-long{after}")
    if driver.shows("attachments.fit"):  # a model may have room for all of it
        driver.click("attachments.fit")
        driver.wait("what fits", _is_counted, PATIENCE)
        driver.leave()
        known = budget(program.state)
        if known is not None and known.fits:  # a model may have no room for any of it
            picture(f"{name}-files-fitted{after}")
    program.do(RemoveFiles())
    program.do(SetDraft(""))
    driver.frames(2)


def _is_counted(state: AppState) -> bool:
    known = budget(state)
    return known is not None and known.counted and state.files.are_read


def _look_at_prompts(
    driver: InputDriver, picture: Picture, folder: Path, name: str, after: str
) -> None:
    program = driver.program
    program.use("prompts", PromptFiles(folder))
    driver.click("chat.prompts")
    driver.wait("the folder", lambda s: s.prompts.read, PATIENCE)
    driver.frames(2)
    if driver.shows("prompts.examples"):
        driver.click("prompts.examples")
        driver.wait("the examples", lambda s: bool(s.prompts.prompts), PATIENCE)
        driver.frames(2)
    driver.point("prompts.1")
    picture(f"{name}-prompts{after}")
    driver.click("prompts.close")
    driver.click("chat.input")
    driver.type("/")
    driver.leave()
    picture(f"{name}-prompts-slash{after}")
    driver.press(imgui.Key.enter)
    driver.leave()
    picture(f"{name}-prompts-places{after}")
    driver.press(imgui.Key.escape)
    program.do(SetDraft(""))
    driver.frames(2)
