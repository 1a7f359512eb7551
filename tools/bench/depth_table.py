"""The table of `tools.bench.depth` as Markdown."""

from __future__ import annotations

from typing import Any

from tools.bench.table import rate

MARKERS = "<!-- bench depth: begin -->", "<!-- bench depth: end -->"
AIM, AIM_SHARE = 1.5, 0.7  # times the peer's speed from the depth on; share of the memory's speed
AIM_FROM = 4096


def markdown(report: dict[str, Any]) -> str:
    """A row for each cache and depth: rates, ours / theirs, the ratio, bytes, the share."""
    tokens, machine = report["tokens"], report["machine"]
    lines = [
        f"| cache, depth | decode {tokens['new']} (aim {AIM}x) | bytes a token | of the memory's "
        f"speed (aim {AIM_SHARE:.0%}) |",
        "| --- | --- | --- | --- |",
        *(_decode(point) for point in report["points"] if point["what"] == "decode"),
        "",
        *(_prefill(point, tokens["prompt"]) for point in report["points"] if _is_prompt(point)),
        "",
        f"Tokens per second, ours / {report['peer']}, and the ratio within a round: median (least "
        f"to most of {report['repeat']} rounds); an aim that was missed is in italics. "
        f"{report['model']}, {machine['processor']}, {machine['threads']} threads, "
        f"{machine['instructions']}, {machine['system']}; memory read {report['read_gb_s']:.1f} "
        f"GB/s in the same run; {report['date']}, load average before it "
        f"{machine['load_before']:.1f}. Made by `make bench-depth`.",
    ]
    return "\n".join(lines)


def _is_prompt(point: dict[str, Any]) -> bool:
    return bool(point["what"] == "prefill")


def _decode(point: dict[str, Any]) -> str:
    share = point["bandwidth_share"]["median"]
    deep = point["depth"] >= AIM_FROM
    cells = (
        f"{point['cache']} beside {point['peer']}, {point['depth']:,}",
        _rates(point, deep),
        f"{point['read_bytes'] / 1e6:.0f} MB",
        _marked(f"{share:.0%}", share >= AIM_SHARE, deep),
    )
    return f"| {' | '.join(cells)} |"


def _prefill(point: dict[str, Any], tokens: int) -> str:
    return (
        f"A prompt of {tokens} tokens behind {point['depth']:,}, {point['cache']} beside "
        f"{point['peer']}: {_rates(point, False)}.\n"
    )


def _rates(point: dict[str, Any], deep: bool) -> str:
    ours, theirs, ratio = (point[name] for name in ("ours", "theirs", "ratio"))
    times = _marked(f"{ratio['median']:.2f}x", ratio["median"] >= AIM, deep)
    return (
        f"{rate(ours['median'])} / {rate(theirs['median'])} = {times} "
        f"({ratio['min']:.2f} to {ratio['max']:.2f})"
    )


def _marked(text: str, reached: bool, has_aim: bool) -> str:
    if not has_aim:
        return text
    return f"**{text}**" if reached else f"*{text}*"
