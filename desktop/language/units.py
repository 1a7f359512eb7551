"""Numbers as people read them."""

from __future__ import annotations

from pathlib import PurePath

from llm_lite.desktop.language.incoming import shown_path
from llm_lite.desktop.language.translate import trn


def size(count: int) -> str:
    """Bytes in binary units: "98.1 MiB"."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def quantity(count: int) -> str:
    """Parameters: "134.5 M"."""
    for unit, step in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= step:
            return f"{count / step:.1f} {unit}"
    return str(count)


def tokens(count: int) -> str:
    """ "1 token", "12 tokens"."""
    return trn("{n} token", "{n} tokens", count).format(n=count)


def rate(tokens_per_second: float) -> str:
    """Tokens per second, without a unit; a dash while there is none."""
    if tokens_per_second <= 0:
        return "–"
    return f"{tokens_per_second:.1f}" if tokens_per_second < 100 else f"{tokens_per_second:,.0f}"


def signed(value: float, form: str) -> str:
    """A number with a real minus sign; `form` as of `format`, with a z none before zero."""
    return format(value, form).replace("-", "\N{MINUS SIGN}")


def duration(milliseconds: float) -> str:
    if milliseconds <= 0:
        return "–"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.1f} s"


def milliseconds(seconds: float) -> str:
    """Of two digits at least."""
    taken = 1e3 * seconds
    return f"{taken:.1f} ms" if taken < 10 else f"{taken:,.0f} ms"


def percent(share: float) -> str:
    """Of 0 to 1; what is not quite nothing, and not quite all, is told as that."""
    if 0 < share < 0.005:
        return "<1%"
    if 0.995 <= share < 1:
        return ">99%"
    return f"{share:.0%}"


def short_name(source: str) -> str:
    """A path's last part without its suffix, fit to be shown; a catalogue name as it is."""
    path = PurePath(shown_path(source))
    if path.name in ("config.json", "variant.json"):  # by which a directory is opened
        path = path.parent
    return (
        path.stem
        if path.suffix.lower() in (".gguf", ".safetensors")
        else path.name or shown_path(source)
    )


def capital(text: str) -> str:
    """With a capital letter at the beginning; the rest as it is."""
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """The engine's messages begin small and end open, to be joined; shown alone they are closed."""
    text = text.strip()
    if text and text.split()[0].isalpha():
        text = capital(text)
    return text if not text or text[-1] in ".!?…" else f"{text}."
