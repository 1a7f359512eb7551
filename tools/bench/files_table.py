"""The reports of `tools.bench.files` as Markdown: for docs/speed.md, in short for the README."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tools.bench.compare import USUAL, Sizes
from tools.bench.table import rate

LLAMA, IK = "llama.cpp", "ik_llama.cpp"
SUMMARY_MARKERS = "<!-- bench files in short: begin -->", "<!-- bench files in short: end -->"
_COLUMNS = (("decode", "decode {new}"), ("prefill", "prefill {prompt}"), ("deep", "at {depth}"))
# Where a kernel with its weights in the cache is less than so many times as fast as memory, its
# instructions hold it up too.
_HEADROOM = 1.25


@dataclass(frozen=True)
class Table:
    """What is measured for a table, and the ratios that we want by peer and column."""

    models: tuple[str, ...]
    aims: Mapping[str, Mapping[str, float]]  # of ik_llama.cpp only where it is measured
    share: float = 0.75  # of the memory's speed, wanted in decode
    isa: str = ""  # the highest to use; "": all that the processor has
    sizes: Sizes = USUAL
    target: str = field(default="", kw_only=True)  # of the Makefile

    @property
    def markers(self) -> tuple[str, str]:
        name = self.target.replace("-", " ")
        return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


_OF_LLAMA = {LLAMA: {"decode": 1.25, "prefill": 1.5, "deep": 1.5}}
_OF_BOTH = {LLAMA: {"prefill": 2.0}, IK: {"decode": 1.05, "prefill": 1.25}}
_LLAMAS = ("Llama 1B", "Llama 3B", "Llama 8B")
_SHALLOW = Sizes(512, 64, 0)  # a round of all takes half an hour
TABLES: Mapping[str, Table] = MappingProxyType(
    {
        "files": Table(("SmolLM2",), _OF_LLAMA, target="bench-files"),
        "recurrent": Table(("Qwen3.5 0.8B",), _OF_LLAMA | {IK: {}}, target="bench-recurrent"),
        "llamas": Table(_LLAMAS, _OF_BOTH, 0.85, "", _SHALLOW, target="bench-llamas"),
        "llamas-avx2": Table(_LLAMAS, _OF_BOTH, 0.85, "avx2", _SHALLOW, target="bench-llamas-avx2"),
    }
)


def markdown(report: dict[str, Any]) -> str:
    """Median tokens per second, ours / each peer's, the ratios with their spread, the share of
    memory, and what limits decode."""
    machine, about = report["machine"], TABLES[report["table"]]
    named = [report["peer"], *report.get("others", {}).values()]
    heads = [_head(key, title, about) for key, title in _titles(report)]
    share = f"of the memory's speed (aim {about.share:.0%})"
    limited = any("cached_gb_s" in result for result in report["results"])
    heads += ["bytes a token", share, *(["decode waits for"] if limited else [])]
    lines = [
        "| as stored | " + " | ".join(heads) + " |",
        "| --- |" + " --- |" * len(heads),
        *(_row(result, report) for result in report["results"]),
        "",
        f"Tokens per second, ours / {' / '.join(named)}, and the ratio within a round: median "
        f"(least to most of {report['repeat']} rounds); an aim that was missed is in italics. "
        f"{machine['processor']}, {machine['threads']} threads, {_instructions(report)}, "
        f"{machine['system']}; memory read {report['read_gb_s']['median']:.1f} GB/s in the same "
        f"run; {report['date']}, load average before it {machine['load_before']:.1f}. Made by "
        f"`make {about.target}`.",
    ]
    return "\n".join(lines)


def summary(report: dict[str, Any]) -> str:
    """A line for each model and type with the ratios to each peer."""
    peers = [LLAMA, *report.get("others", {})]
    titles = [title for _, title in _titles(report)]
    lines = [
        f"| times {' / '.join(peers)} | " + " | ".join(titles) + " |",
        "| --- |" + " --- |" * len(titles),
    ]
    for result in report["results"]:
        cells = (
            " / ".join(_ratio(result, peer, key, report) for peer in peers)
            for key, _ in _titles(report)
        )
        lines.append(f"| {result['model']}, {result['peer']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def markers_of(report: dict[str, Any]) -> tuple[str, str]:
    """Return the two lines of the page that its table stands between."""
    return TABLES[report["table"]].markers


def _instructions(report: dict[str, Any]) -> str:
    isa = TABLES[report["table"]].isa
    return f"all limited to {isa}" if isa else str(report["machine"]["instructions"])


def _head(key: str, title: str, about: Table) -> str:
    aims = [f"{aims[key]:g}x {peer}" for peer, aims in about.aims.items() if key in aims]
    return f"{title} (aim {', '.join(aims)})" if aims else title


def _titles(report: dict[str, Any]) -> list[tuple[str, str]]:
    tokens = report["tokens"]
    measured = _COLUMNS if tokens["depth"] else _COLUMNS[:-1]
    return [(key, title.format(**tokens)) for key, title in measured]


def _row(result: dict[str, Any], report: dict[str, Any]) -> str:
    aim = TABLES[report["table"]].share
    share = result["bandwidth_share"]["decode"]["median"]
    cells = [
        f"{result['model']}, {result['peer']}",
        *(_cell(result, key, report) for key, _ in _titles(report)),
        f"{result['read_bytes']['decode'] / 1e6:.0f} MB",
        _marked(f"{share:.0%}", share >= aim),
    ]
    if "cached_gb_s" in result:
        cells.append(_limit(result, report["read_gb_s"]["median"], share >= aim))
    return f"| {' | '.join(cells)} |"


def _limit(result: dict[str, Any], memory: float, met: bool) -> str:
    """Memory, where its speed is reached or a kernel with its weights in the cache is well above
    it."""
    cached = result["cached_gb_s"]
    what = "memory" if met or cached >= _HEADROOM * memory else "instructions"
    return f"{what} ({cached:.0f} GB/s in the cache)"


def _cell(result: dict[str, Any], key: str, report: dict[str, Any]) -> str:
    others = result.get("others", {})
    shown = (result["ours"], result["theirs"], *(one["rates"] for one in others.values()))
    rates = " / ".join(rate(one[key]["median"]) for one in shown)
    ratios = (
        f"{_ratio(result, peer, key, report)} ({found['min']:.2f} to {found['max']:.2f})"
        for peer, found in ((p, _spread(result, p, key)) for p in (LLAMA, *others))
    )
    return f"{rates} = {', '.join(ratios)}"


def _spread(result: dict[str, Any], peer: str, key: str) -> dict[str, float]:
    """Return the median and the extremes of our ratio to a peer."""
    ratios = result["ratio"] if peer == LLAMA else result["others"][peer]["ratio"]
    found: dict[str, float] = ratios[key]
    return found


def _ratio(result: dict[str, Any], peer: str, key: str, report: dict[str, Any]) -> str:
    value = _spread(result, peer, key)["median"]
    aim = TABLES[report["table"]].aims.get(peer, {}).get(key)
    return f"{value:.2f}x" if aim is None else _marked(f"{value:.2f}x", value >= aim)


def _marked(text: str, met: bool) -> str:
    return f"**{text}**" if met else f"*{text}*"
