"""The report of `tools.bench.quantization` as Markdown for docs/quantization.md."""

from __future__ import annotations

from typing import Any

BEGIN, END = "<!-- quantization: begin -->", "<!-- quantization: end -->"

_CALIBRATED = {"": "", "text": ", calibrated", "self": ", calibrated by its own text"}


def markdown(report: dict[str, Any]) -> str:
    """Divergences, errors beside the peer's formats, memory of quantizing, pages shared."""
    machine, text, calibration = report["machine"], report["text"], report["calibration"]
    lines = [
        "| against float32 | mean KL | median | 99 % | largest | same token | bits |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(_divergence(row) for row in report["divergence"]),
        "",
        f"{report['model']} on {text['bytes'] / 1000:.0f} kB of {text['name']}, calibrated with "
        f"{calibration['bytes'] / 1000:.0f} kB of {calibration['name']}; divergence in nats, "
        f"chunks of {report['chunk']}, the second half of each scored; an aim that was missed is "
        "in italics.",
        "",
        *_matrices(report["matrices"]),
        "",
        *_memory(report["memory"]),
        "",
        _sharing(report["sharing"]),
        "",
        f"{machine['processor']}, {machine['threads']} threads, {machine['instructions']}, "
        f"{machine['system']}, {machine['date']}. Made by `python -m tools.bench.quantization`; "
        "the commands stand in `tools/bench/results/quantization.json`.",
    ]
    return "\n".join(lines)


def _divergence(row: dict[str, Any]) -> str:
    mean = _mean(row["kld_mean"], row["limit"])
    rest = (row[key] for key in ("kld_median", "kld_p99", "kld_max"))
    cells = " | ".join(f"{value:.2g}" for value in rest)
    bits = row["matrix_bits_per_weight"]
    return f"| {row['name']} | {mean} | {cells} | {row['same_top']:.1%} | {bits:.2f} |"


def _mean(value: float, limit: float | None) -> str:
    if limit is None:
        return f"{value:.3g}"
    mark = "**" if value <= limit else "*"
    return f"{mark}{value:.3g}{mark} (aim {limit:g})"


def _matrices(found: dict[str, Any]) -> list[str]:
    """Return the lines of a table of weights that were never quantized before."""
    lines = [
        f"| {found['matrices']} float matrices of all-MiniLM-L6-v2 | squared error | worst matrix "
        "| bits |",
        "| --- | --- | --- | --- |",
    ]
    for name, pair in found.items():
        if isinstance(pair, dict):
            ours, theirs = name.split(" over ")
            worst = f"{pair['largest_of_matrices']:.2f}x"
            lines.append(
                f"| {ours} against the `gguf` package's {theirs} "
                f"| **{pair['squared_error']:.2f}x** (aim {pair['limit']:g}x) | {worst} "
                f"| {pair['bits']:g} / {pair['their_bits']:g} |"
            )
    return lines


def _memory(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| quantizing | largest tensor | peak memory | may take | time |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        how = f"{row['model']} to {row['mode']}{_CALIBRATED[row['calibrated']]}"
        sizes = (row[key] for key in ("largest_tensor_bytes", "peak_bytes", "limit_bytes"))
        cells = " | ".join(f"{size / 1e6:.0f} MB" for size in sizes)
        lines.append(f"| {how} | {cells} | {row['seconds']:.0f} s |")
    return lines


def _sharing(found: dict[str, Any]) -> str:
    pages, both = found["alone"]["Rss"] / 1e6, found["both"][0]
    return (
        f"Two processes that run one int4 variant share its pages: {pages:.0f} MB are resident in "
        f"each, {both['Shared_Clean'] / 1e6:.0f} MB of them shared, so that each counts for "
        f"{both['Pss'] / 1e6:.0f} MB; {both['Private_Dirty'] / 1e6:.0f} MB were copied."
    )
