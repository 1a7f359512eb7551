"""Names and units of models: places, forms, times, unknown numbers."""

from __future__ import annotations

from llm_lite.core.messages import Mode
from llm_lite.core.messages.library import Form, LocalModel, Origin
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.language.units import quantity, size

UNKNOWN = mark("unknown")
ORIGINS: dict[Origin, str] = {
    "bundled": mark("bundled"),
    "llm-lite": "llm-lite",
    "huggingface": "Hugging Face",
    "lm-studio": "LM Studio",
    "ollama": "Ollama",
    "llama.cpp": "llama.cpp",
    "imported": mark("imported"),
}
PLACES: dict[Origin, str] = {
    "bundled": mark("Bundled with llm-lite"),
    "llm-lite": mark("llm-lite's own folder"),
    "huggingface": mark("Hugging Face cache, shared"),
    "lm-studio": mark("LM Studio's folder"),
    "ollama": mark("Ollama's folder"),
    "llama.cpp": mark("llama.cpp's cache"),
    "imported": mark("Imported, where you said"),
}
FORMS: dict[Form, str] = {
    "gguf": "GGUF",
    "huggingface": "Safetensors",
    "variant": mark("variant"),
    "slice": mark("slice"),
}
QUANTIZED: tuple[tuple[Mode, str], ...] = (("int4", "int4"), ("int8", "int8"), ("fp16", "fp16"))


def context(count: int) -> str:
    """Return tokens as tables have them: "8K", "131K"; exact where it is no round number."""
    if count <= 0:
        return "–"
    if count % 1024 == 0:
        return f"{count // 1024:,}K"
    return f"{count:,}"


def context_in_full(count: int) -> str:
    if count <= 0:
        return tr(UNKNOWN)
    return trn("{n:,} token", "{n:,} tokens", count).format(n=count)


def bytes_of(count: int) -> str:
    """Return the size of a file, or that it is unknown."""
    return size(count) if count > 0 else tr(UNKNOWN)


def parameters(count: int) -> str:
    return quantity(count) if count > 0 else tr(UNKNOWN)


def described(model: LocalModel) -> str:
    """Return the form of a model and the format of its weights."""
    form = tr(FORMS[model.form])
    return f"{form}, {model.format}" if model.format else form


def remaining(seconds: float | None) -> str:
    """Return how long a job still takes: rounded, as it is an estimate."""
    if seconds is None or seconds != seconds or seconds < 0:
        return tr("time left unknown")
    if seconds < 60:
        return tr("less than a minute left")
    minutes = round(seconds / 60)
    if minutes < 60:
        return trn("{n} minute left", "{n} minutes left", minutes).format(n=minutes)
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return tr("{hours} h {minutes} min left").format(hours=hours, minutes=minutes)
    return trn("{n} day left", "{n} days left", hours // 24).format(n=hours // 24)
