"""The table of `tools.bench.compare` as Markdown, and its place in a page."""

from __future__ import annotations

from typing import Any

MARKERS = "<!-- bench: begin -->", "<!-- bench: end -->"
VULKAN_MARKERS = "<!-- bench vulkan: begin -->", "<!-- bench vulkan: end -->"
AVX2_MARKERS = "<!-- bench avx2: begin -->", "<!-- bench avx2: end -->"
_COLUMNS = (("decode", "decode {new}"), ("prefill", "prefill {prompt}"), ("deep", "at {depth}"))


def markdown(report: dict[str, Any]) -> str:
    """Median tokens per second, ours / theirs, the ratio with its spread, the share of memory."""
    tokens, machine = report["tokens"], report["machine"]
    heads = [title.format(**tokens) for _, title in _COLUMNS]
    lines = [
        "| | " + " | ".join(heads) + " | bytes a token | of the memory's speed |",
        "| --- |" + " --- |" * (len(heads) + 2),
        *(_row(result) for result in report["results"]),
        "",
        f"Tokens per second, ours / {report['peer']}, and the ratio within a round: median (least "
        f"to most of {report['repeat']} rounds). {report['model']}, {_where(report)}"
        f"{machine['threads']} threads, {machine['instructions']}, {machine['system']}; memory "
        f"read {report['read_gb_s']['median']:.1f} GB/s in the same run; {report['date']}, load "
        f"average before it {machine['load_before']:.1f}. Made by {_command(report)}.",
    ]
    return "\n".join(lines)


def _where(report: dict[str, Any]) -> str:
    """The device or the limit, if there is one, and the processor."""
    device, isa = report.get("device", ""), report.get("isa", "")
    both = f"both on Vulkan's {device}, " if device else f"both limited to {isa}, " if isa else ""
    return both + f"{report['machine']['processor']}, "


def _command(report: dict[str, Any]) -> str:
    if report.get("device", ""):
        return "`make bench-vulkan`"
    return "`make bench-avx2`" if report.get("isa", "") else "`make bench`"


def markers_of(report: dict[str, Any]) -> tuple[str, str]:
    """Return the two lines of the page that its table stands between."""
    if report.get("device", ""):
        return VULKAN_MARKERS
    return AVX2_MARKERS if report.get("isa", "") else MARKERS


def _row(result: dict[str, Any]) -> str:
    cells = [_cell(result, key) for key, _ in _COLUMNS]
    share = result["bandwidth_share"]["decode"]
    return (
        f"| {result['mode']} against {result['peer']} | "
        + " | ".join(cells)
        + f" | {result['read_bytes']['decode'] / 1e6:.0f} MB | {share['median']:.0%} |"
    )


def _cell(result: dict[str, Any], key: str) -> str:
    ours, theirs, ratio = (result[name][key] for name in ("ours", "theirs", "ratio"))
    return (
        f"{rate(ours['median'])} / {rate(theirs['median'])} = **{ratio['median']:.2f}x** "
        f"({ratio['min']:.2f} to {ratio['max']:.2f})"
    )


def rate(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}"


def insert(page: str, table: str, between: tuple[str, str] = MARKERS) -> str:
    """The page with the table between its markers; ValueError where it has none."""
    first, last = between
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"the page has no {first} and {last}")
    return f"{before}{first}\n{table}\n{last}{after}"
