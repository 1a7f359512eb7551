"""Numbers as people read them."""

from __future__ import annotations

from pathlib import PurePath

from llm_lite.desktop.language.incoming import shown_path
from llm_lite.desktop.language.translate import trn


def size(count: int) -> str:
    """Format bytes in binary units: "98.1 MiB"."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def quantity(count: int) -> str:
    """Format a number of parameters: "134.5 M"."""
    for unit, step in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= step:
            return f"{count / step:.1f} {unit}"
    return str(count)


def tokens(count: int) -> str:
    """Format a number of tokens: "1 token", "12 tokens"."""
    return trn("{n} token", "{n} tokens", count).format(n=count)


def rate(tokens_per_second: float) -> str:
    """Format tokens per second without a unit; a dash while there is no rate."""
    if tokens_per_second <= 0:
        return "–"
    return f"{tokens_per_second:.1f}" if tokens_per_second < 100 else f"{tokens_per_second:,.0f}"


def signed(value: float, form: str) -> str:
    """Format a number with a real minus sign; `form` is a format specification, which
    prints no -0 if it has a z."""
    return format(value, form).replace("-", "\N{MINUS SIGN}")


def duration(milliseconds: float) -> str:
    if milliseconds <= 0:
        return "–"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.1f} s"


def milliseconds(seconds: float) -> str:
    """Format seconds as milliseconds, with two digits at least."""
    taken = 1e3 * seconds
    return f"{taken:.1f} ms" if taken < 10 else f"{taken:,.0f} ms"


def percent(share: float) -> str:
    """Format a share from 0 to 1; shares close to the ends become "<1%" and ">99%"."""
    if 0 < share < 0.005:
        return "<1%"
    if 0.995 <= share < 1:
        return ">99%"
    return f"{share:.0%}"


def short_name(source: str) -> str:
    """Return a path's last part without its suffix, fit to be shown; a catalogue name stays as it
    is."""
    path = PurePath(shown_path(source))
    if path.name in ("config.json", "variant.json"):  # by which a directory is opened
        path = path.parent
    return (
        path.stem
        if path.suffix.lower() in (".gguf", ".safetensors")
        else path.name or shown_path(source)
    )


def capital(text: str) -> str:
    """Return `text` with a capital first letter."""
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """Close a message of the engine, which begins small and ends open to be joined, as a
    sentence."""
    text = text.strip()
    if text and text.split()[0].isalpha():
        text = capital(text)
    return text if not text or text[-1] in ".!?…" else f"{text}."


def nats(value: float) -> str:
    """Return nats as text, in which what is not quite 0 stays apart from 0."""
    return "<0.0001" if 0 < value < 0.0001 else f"{value:.4f}"
