"""The report of `tests.bench.files` as Markdown: for docs/speed.md, and in short for the README."""

from __future__ import annotations

from typing import Any

from tests.bench.table import rate

IK = "ik_llama.cpp"
MARKERS = "<!-- bench files: begin -->", "<!-- bench files: end -->"
# Of a report of models with recurrent states
RECURRENT_MARKERS = "<!-- bench recurrent: begin -->", "<!-- bench recurrent: end -->"
SUMMARY_MARKERS = "<!-- bench files in short: begin -->", "<!-- bench files in short: end -->"
AIMS = {"decode": 1.25, "prefill": 1.5, "deep": 1.5}  # of the ratio within a round
SHARE_AIM = 0.75  # of the memory's speed
_COLUMNS = (("decode", "decode {new}"), ("prefill", "prefill {prompt}"), ("deep", "at {depth}"))


def markdown(report: dict[str, Any]) -> str:
    """Median tokens per second, ours / each peer's, the ratios with the spread of the first, the
    share of memory."""
    machine, named = report["machine"], [report["peer"], *report.get("others", {}).values()]
    heads = [f"{title} (aim {AIMS[key]:g}x)" for key, title in _titles(report)]
    share = f"of the memory's speed (aim {SHARE_AIM:.0%})"
    lines = [
        "| as stored | " + " | ".join(heads) + f" | bytes a token | {share} |",
        "| --- |" + " --- |" * (len(heads) + 2),
        *(_row(result) for result in report["results"]),
        "",
        f"Tokens per second, ours / {' / '.join(named)}, and the ratio within a round: median "
        f"(least to most of {report['repeat']} rounds); an aim that was missed is in italics. "
        f"{machine['processor']}, {machine['threads']} threads, {machine['instructions']}, "
        f"{machine['system']}; memory read {report['read_gb_s']['median']:.1f} GB/s in the same "
        f"run; {report['date']}, load average before it {machine['load_before']:.1f}. Made by "
        f"{_command(report)}.",
    ]
    return "\n".join(lines)


def summary(report: dict[str, Any]) -> str:
    """A line for each type with the ratios of all models."""
    models = list(dict.fromkeys(result["model"] for result in report["results"]))
    types = list(dict.fromkeys(result["peer"] for result in report["results"]))
    found = {(result["model"], result["peer"]): result for result in report["results"]}
    lines = [
        f"| {' / '.join(models)} | " + " | ".join(title for _, title in _titles(report)) + " |",
        "| --- |" + " --- |" * len(_COLUMNS),
    ]
    for name in types:
        results = [found[model, name] for model in models if (model, name) in found]
        cells = (" / ".join(_ratio(result, key) for result in results) for key, _ in _COLUMNS)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def markers_of(report: dict[str, Any]) -> tuple[str, str]:
    """Between which its table stands."""
    return RECURRENT_MARKERS if _is_recurrent(report) else MARKERS


def _command(report: dict[str, Any]) -> str:
    return "`make bench-recurrent`" if _is_recurrent(report) else "`make bench-files`"


def _is_recurrent(report: dict[str, Any]) -> bool:
    return all(result["model"].startswith("Qwen3.5") for result in report["results"])


def _titles(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(key, title.format(**report["tokens"])) for key, title in _COLUMNS]


def _row(result: dict[str, Any]) -> str:
    cells = [_cell(result, key) for key, _ in _COLUMNS]
    share = result["bandwidth_share"]["decode"]["median"]
    return (
        f"| {result['model']}, {result['peer']} | "
        + " | ".join(cells)
        + f" | {result['read_bytes']['decode'] / 1e6:.0f} MB | "
        + f"{_marked(f'{share:.0%}', share >= SHARE_AIM)} |"
    )


def _cell(result: dict[str, Any], key: str) -> str:
    others, ratio = result.get("others", {}).values(), result["ratio"][key]
    shown = (result["ours"], result["theirs"], *(one["rates"] for one in others))
    rates = " / ".join(rate(one[key]["median"]) for one in shown)
    beside = "".join(f", {one['ratio'][key]['median']:.2f}x" for one in others)
    return f"{rates} = {_ratio(result, key)} ({ratio['min']:.2f} to {ratio['max']:.2f}){beside}"


def _ratio(result: dict[str, Any], key: str) -> str:
    value = result["ratio"][key]["median"]
    return _marked(f"{value:.2f}x", value >= AIMS[key])


def _marked(text: str, met: bool) -> str:
    return f"**{text}**" if met else f"*{text}*"
