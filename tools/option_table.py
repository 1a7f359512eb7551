"""Writes the table of sampler options in docs/sampling.md (make options)."""

from __future__ import annotations

from pathlib import Path

from msgspec import UNSET

from llm_lite.core.messages.sampling_options import OPTIONS, Option

PLACE = Path(__file__).resolve().parents[1] / "docs" / "sampling.md"
HEAD = "| option | what it does | default | range | off | known to |"
_TITLES = {"openai": "every server", "gguf": "GGUF files", "vllm": "vLLM", "lm-studio": "LM Studio"}
_TITLES |= {"generation_config": "`generation_config.json`"}
_OPEN = 1 << 30  # from here on a range has no end that a person would meet


def table() -> str:
    return "\n".join([HEAD, "| --- | --- | --- | --- | --- | --- |", *map(_row, OPTIONS.values())])


def _row(row: Option) -> str:
    cells = (
        f"`{row.name}`",
        row.summary,
        _default(row),
        _range(row),
        "" if row.off is None else f"{row.off:g}",
        ", ".join(
            _TITLES.get(place, place) + (f" as `{name}`" if name != row.name else "")
            for place, name in row.names.items()
        ),
    )
    return "| " + " | ".join(cells) + " |"


def _default(row: Option) -> str:
    match row.default:
        case bool():
            return "on" if row.default else "off"
        case int() | float():
            return f"{row.default:g}" if row.kind == "number" else str(row.default)
        case (_, *_):
            return " ".join(f"`{repr(text)[1:-1]}`" for text in row.default)
    return "none"


def _range(row: Option) -> str:
    if row.kind not in ("number", "whole", "biases"):
        return ""
    end = "" if row.high >= _OPEN else f" to {row.high:g}"
    allowed = f"{row.low:g}{end}" if end else f"{row.low:g} or more"
    if row.minus_one is UNSET:
        return allowed
    words = {None: "a new one for each answer", row.off: "off"}
    return f"{allowed}; -1: {words.get(row.minus_one, 'no limit')}"


def written(page: str) -> str:
    """Return the page with the table as it is now."""
    before, _, rest = page.partition(HEAD)
    after = rest.partition("\n\n")[2]
    return f"{before}{table()}\n\n{after}"


if __name__ == "__main__":
    PLACE.write_text(written(PLACE.read_text("utf-8")), "utf-8")
