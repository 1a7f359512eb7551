"""Make assets/fonts and desktop/widgets/icons.py from public packages.

    pip install fonttools brotli && python tools/make_fonts.py

Needs npm and apt-get (Debian 12 or later): both only download and unpack. assets/README.md says
which file comes from which package and under which licence.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont
from fontTools.ttLib.tables._c_m_a_p import CmapSubtable

ROOT = Path(__file__).resolve().parent.parent
ASSETS = ROOT / "assets"
FONTS = ASSETS / "fonts"
ICONS_PY = ROOT / "desktop" / "widgets" / "icons.py"

NPM = {
    "pretendard": "1.3.9",
    "inter-ui": "3.19.3",
    "lucide-static": "1.62.0",
    "twemoji-colr-font": "15.0.3",
}
DEBIAN = ("fonts-noto-cjk", "fonts-jetbrains-mono")
NOTO_CJK_JAPANESE, NOTO_CJK_SIMPLIFIED = 0, 2  # faces inside NotoSansCJK-Regular.ttc

# Syllables, and the letters they are made of.
HANGUL = {*range(0x1100, 0x1200), *range(0x3130, 0x3190), *range(0xAC00, 0xD7A4)}
# Pretendard fills much of U+E000..U+F0FF; U+E900 onward is free in every face we merge.
ICON_BASE = 0xE900
ICONS = {
    "SEND": "send-horizontal",
    "STOP": "square",
    "REGENERATE": "refresh-cw",
    "COPY": "copy",
    "CONTINUE": "corner-down-right",
    "NEW": "plus",
    "NEW_CHAT": "message-square-plus",
    "CHAT": "message-square",
    "TRASH": "trash-2",
    "SETTINGS": "settings",
    "SLIDERS": "sliders-horizontal",
    "SUN": "sun",
    "MOON": "moon",
    "FOLDER_OPEN": "folder-open",
    "FILE": "file",
    "SAVE": "save",
    "CPU": "cpu",
    "GPU": "gpu",
    "MEMORY": "memory-stick",
    "EYE": "eye",
    "EYE_OFF": "eye-off",
    "GRID": "grid-3x3",
    "LAYERS": "layers",
    "DATABASE": "database",
    "SCALE": "scale",
    "GAUGE": "gauge",
    "CHART": "chart-line",
    "LOG": "scroll-text",
    "TERMINAL": "terminal",
    "INFO": "info",
    "WARNING": "triangle-alert",
    "ERROR": "circle-x",
    "HELP": "circle-question-mark",
    "CHECK": "check",
    "CLOSE": "x",
    "CHEVRON_UP": "chevron-up",
    "CHEVRON_DOWN": "chevron-down",
    "CHEVRON_LEFT": "chevron-left",
    "CHEVRON_RIGHT": "chevron-right",
    "SEARCH": "search",
    "DOWNLOAD": "download",
    "UPLOAD": "upload",
    "PAUSE": "pause",
    "PLAY": "play",
    "PIN": "pin",
    "EDIT": "pencil",
    "BRANCH": "git-branch",
    "THERMOMETER": "thermometer",
    "DICE": "dices",
    "CLOCK": "clock",
    "LOCK": "lock",
    "LINK": "link",
    "USER": "user",
    "BOT": "bot",
    "SPARKLES": "sparkles",
    "UNDO": "undo-2",
    "MAXIMIZE": "maximize-2",
    "MINIMIZE": "minimize-2",
    "SIDEBAR": "panel-left",
    "ZOOM_IN": "zoom-in",
    "ZOOM_OUT": "zoom-out",
    "MORE": "ellipsis",
    "POWER": "power",
    "NUMBERS": "list-ordered",
    "PAPERCLIP": "paperclip",
    "PICTURE": "image",
    "FILE_TEXT": "file-text",
    "FILE_CODE": "file-code",
    "BOOK": "library",
    "ARCHIVE": "archive",
    "PANEL_RIGHT": "panel-right",
    "READ": "book-open-text",
    "INSPECT": "microscope",
    "COMPARE": "columns-2",
    "KEYBOARD": "keyboard",
    "COMMAND": "command",
    "MODELS": "box",
    "LENS": "aperture",
    "STEER": "ship-wheel",
    "PROMPT": "notebook-pen",
    "SYSTEM_THEME": "sun-moon",
    "COLORS": "palette",
    "XRAY": "scan-eye",
    "CHOICES": "list-tree",
    "MAP": "network",
    "SERVE": "radio-tower",
    "LESSON": "graduation-cap",
}


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        npm, debian = fetch_npm(work), fetch_debian(work)
        FONTS.mkdir(exist_ok=True)
        make_pretendard(npm["pretendard"])
        make_italics(npm["inter-ui"])
        copy_jetbrains_mono(debian["fonts-jetbrains-mono"])
        make_cjk(debian["fonts-noto-cjk"])
        make_emoji(npm["twemoji-colr-font"])
        make_icons(npm["lucide-static"])
    for file in sorted(FONTS.iterdir()):
        print(f"{file.stat().st_size:>9} {file.name}")


def fetch_npm(work: Path) -> dict[str, Path]:
    folders = {}
    for name, version in NPM.items():
        run(work, "npm", "pack", "--silent", f"{name}@{version}")
        folders[name] = work / name
        folders[name].mkdir()
        run(work, "tar", "xzf", f"{name}-{version}.tgz", "-C", name, "--strip-components=1")
    return folders


def fetch_debian(work: Path) -> dict[str, Path]:
    folders = {}
    for name in DEBIAN:
        run(work, "apt-get", "download", "-q", name)
        (package,) = work.glob(f"{name}_*.deb")
        folders[name] = work / name
        run(work, "dpkg", "-x", str(package), name)
    return folders


def run(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True)


def make_pretendard(package: Path) -> None:
    """Make Pretendard, with Hangul of the next heavier weight: its strokes are thinner than
    those of the Latin letters beside it, which shows at the sizes of an interface."""
    folder = package / "dist/public/static"
    parts = (("Regular", "Latin", False), ("Medium", "Hangul", True))
    for weight, script, hangul in parts:
        font = TTFont(folder / f"Pretendard-{weight}.otf")
        there = set(font.getBestCmap())
        subset(font, there & HANGUL if hangul else there - HANGUL)
        rename(font, f"Part {script}", weight)
        font.save(FONTS / f"{script}-{weight}-Subset.otf")
    shutil.copyfile(folder / "Pretendard-SemiBold.otf", FONTS / "Pretendard-SemiBold.otf")
    shutil.copyfile(package / "dist/LICENSE.txt", FONTS / "LICENSE-Pretendard.txt")


def rename(font: TTFont, family: str, style: str) -> None:
    """Rename a font, as its licence reserves the name "Pretendard" for the unchanged one."""
    names = {1: family, 2: style, 3: f"{family} {style}", 4: f"{family} {style}"}
    names[6] = f"{family}-{style}".replace(" ", "")
    table = font["name"]
    table.names = [record for record in table.names if record.nameID in (0, 13, 14)]
    for number, name in names.items():
        table.setName(name, number, 3, 1, 0x409)
    top = font["CFF "].cff
    top.fontNames = [names[6]]
    top[0].FullName, top[0].FamilyName = names[4], family


def make_italics(package: Path) -> None:
    """Pretendard's Latin letters are Inter's, whose italics it has not."""
    letters = set(range(0x20, 0x530)) | set(range(0x1E00, 0x2300))
    for weight in ("Italic", "SemiBoldItalic"):
        font = TTFont(package / "Inter (web)" / f"Inter-{weight}.woff2")
        font.flavor = None
        subset(font, letters)
        font.save(FONTS / f"Inter-{weight}-Subset.ttf")
    shutil.copyfile(package / "LICENSE.txt", FONTS / "LICENSE-Inter.txt")


def copy_jetbrains_mono(package: Path) -> None:
    file = "JetBrainsMono-Regular.ttf"
    shutil.copyfile(package / "usr/share/fonts/truetype/jetbrains-mono" / file, FONTS / file)
    write_ofl(TTFont(FONTS / file), "LICENSE-JetBrainsMono.txt")


def make_cjk(package: Path) -> None:
    """Two regional faces: the same code point is drawn differently in Chinese and Japanese."""
    collection = package / "usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc"
    symbols = set(range(0x2000, 0x2C00)) | set(range(0x3000, 0x3400)) | set(range(0xFF00, 0xFFF0))
    chinese = han("gb2312") | han_big5_level_1() | symbols | {0xFFFD}
    japanese = han("shift_jis") | han("euc_kr")
    for name, face, wanted in (
        ("NotoSansSC-Subset.otf", NOTO_CJK_SIMPLIFIED, chinese),
        ("NotoSansJP-Subset.otf", NOTO_CJK_JAPANESE, japanese | set(range(0x3000, 0x3100))),
    ):
        font = TTFont(collection, fontNumber=face)
        subset(font, wanted)
        font.save(FONTS / name)
    write_ofl(TTFont(collection, fontNumber=NOTO_CJK_SIMPLIFIED), "LICENSE-NotoSansCJK.txt")


def han(codec: str) -> set[int]:
    return {code for code in range(0x4E00, 0xA000) if can_encode(code, codec)}


def can_encode(code: int, codec: str) -> bool:
    try:
        chr(code).encode(codec)
    except UnicodeEncodeError:
        return False
    return True


def han_big5_level_1() -> set[int]:
    """Return the 5401 frequent traditional characters: Big5 rows A440..C67E."""
    frequent = (chr(code) for code in range(0x4E00, 0xA000) if can_encode(code, "big5"))
    return {ord(char) for char in frequent if char.encode("big5") <= b"\xc6\x7e"}


def make_emoji(package: Path) -> None:
    """Make COLR version 0 layers, which FreeType paints, without sequences, which need shaping."""
    font = TTFont(package / "twemoji.woff2")
    font.flavor = None
    plain_text = set(range(0x100))  # digits, #, *, (c), (r) stay with the text face
    joiners = {0xFE0F, 0x200D, 0x20E3}
    subset(font, set(font.getBestCmap()) - plain_text)
    for code in joiners & set(font.getBestCmap()):
        font["hmtx"][font.getBestCmap()[code]] = (0, 0)
    font.save(FONTS / "Twemoji-Subset.ttf")
    shutil.copyfile(package / "LICENSE", FONTS / "LICENSE-Twemoji.txt")


def make_icons(package: Path) -> None:
    font = TTFont(package / "font/lucide.ttf")
    lucide = json.loads((package / "font/codepoints.json").read_text())
    missing = [name for name in ICONS.values() if name not in lucide]
    if missing:
        raise SystemExit(f"lucide-static {NPM['lucide-static']} has no icon {missing}")
    subset(font, {lucide[name] for name in ICONS.values()})
    glyphs = font.getBestCmap()
    renumber(font, {ICON_BASE + i: glyphs[lucide[n]] for i, n in enumerate(ICONS.values())})
    font.save(FONTS / "Lucide-Subset.ttf")
    shutil.copyfile(package / "LICENSE", FONTS / "LICENSE-Lucide.txt")
    write_icons_py()


def renumber(font: TTFont, mapping: dict[int, str]) -> None:
    table = CmapSubtable.newSubtable(4)
    table.platformID, table.platEncID, table.language = 3, 1, 0
    table.cmap = mapping
    font["cmap"].tables = [table]


def write_icons_py() -> None:
    lines = [
        '"""The icons of assets/fonts/Lucide-Subset.ttf; made by tools/make_fonts.py."""',
        "",
        *(f'ICON_{name} = "\\u{ICON_BASE + i:04x}"' for i, name in enumerate(ICONS)),
    ]
    ICONS_PY.write_text("\n".join(lines) + "\n", encoding="utf-8")


def subset(font: TTFont, code_points: Iterable[int]) -> None:
    options = Options(layout_features=[], name_IDs=["*"], notdef_outline=True, hinting=True)
    options.drop_tables += ["GSUB", "GPOS", "GDEF", "BASE", "VORG", "vhea", "vmtx", "FFTM"]
    subsetter = Subsetter(options)
    subsetter.populate(unicodes=code_points)
    subsetter.subset(font)


def write_ofl(font: TTFont, name: str) -> None:
    """Write the font's copyright and licence records, then the text of the Open Font License."""
    licence = (FONTS / "LICENSE-Pretendard.txt").read_text(encoding="utf-8")
    text = licence[licence.index("-----") :]
    records = [font["name"].getDebugName(record) for record in (0, 13)]
    if "SIL Open Font License, Version 1.1" not in records[1]:
        raise SystemExit(f"{name}: expected the SIL Open Font License 1.1, found {records[1]!r}")
    (FONTS / name).write_text("\n\n".join([*records, text]), encoding="utf-8")


if __name__ == "__main__":
    main()
