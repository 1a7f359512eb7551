"""What the types of caches lose: answers with each beside those with a float32 cache.

    python -m tools.bench.cache_types [--model MODEL] [--text FILE] [--bytes 20000]
                                      [--json FILE] [--page docs/quantization.md]

Every number is one of `llm-lite perplexity`, run as a person would: the model's weights as they are
stored, float32 activations, so that nothing but the cache differs. The text is a page of this
repository, of which the report keeps a hash.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from llm_lite.core.hub import catalog
from llm_lite.core.plan.plan import row_bytes
from tools.bench.quantization_memory import run_command
from tools.bench.table import insert

ROOT = Path(__file__).parents[2]
MARKERS = "<!-- cache types: begin -->", "<!-- cache types: end -->"
CHUNK = 512  # tokens
CACHES = ("fp16", "int8", "int8,int4", "fp16,int4", "int4")  # of keys and values, or of both
_KEPT = ("ppl", "ppl_reference", "kld_mean", "kld_median", "kld_p99", "same_top", "tokens_scored")
_DTYPES = {"fp16": "f16", "int8": "i8", "int4": "i4"}
_HEAD = 64  # values, for the bits of one


def main() -> int:
    options = _options()
    report = _measure(options)
    table = markdown(report)
    print(table)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    if options.page:
        page = options.page.read_text("utf-8")
        options.page.write_text(insert(page, table, MARKERS), "utf-8")
    return 0


def markdown(report: dict[str, Any]) -> str:
    """A row for each cache: bits of a value, divergence, perplexity."""
    lines = [
        "| cache | bits a value | mean KL | median | 99 % | same token | perplexity |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(_row(row) for row in report["rows"]),
        "",
        f"{report['model']}, weights as stored, float32 activations, on {report['bytes']:,} bytes "
        f"of {report['text']} (SHA-256 {report['sha256'][:12]}), chunks of {CHUNK} tokens, the "
        f"second half of each scored: {report['rows'][0]['tokens_scored']:,} tokens, whose "
        f"perplexity with a float32 cache is {report['rows'][0]['ppl_reference']:.3f}; divergence "
        f"from it in nats. {report['date']}. Made by `python -m tools.bench.cache_types`.",
    ]
    return "\n".join(lines)


def _row(row: dict[str, Any]) -> str:
    kinds = row["cache"].split(",")
    name = kinds[0] if len(kinds) == 1 else f"keys {kinds[0]}, values {kinds[1]}"
    bits = [8 * row_bytes(_DTYPES[kind], 4 * _HEAD, _HEAD) / (4 * _HEAD) for kind in kinds]
    cells = (
        name,
        f"{sum(bits) / len(bits):.2f}",
        f"{row['kld_mean']:.3g}",
        f"{row['kld_median']:.2g}",
        f"{row['kld_p99']:.2g}",
        f"{row['same_top']:.1%}",
        f"{row['ppl']:.3f}",
    )
    return f"| {' | '.join(cells)} |"


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    text = options.text.read_bytes()[: options.bytes]
    with tempfile.TemporaryDirectory(prefix="llm-lite-caches-") as folder:
        path = Path(folder) / "text.txt"
        path.write_text(text.decode("utf-8", "ignore"), "utf-8")
        rows = [_diverge(cache, options.model, path) for cache in CACHES]
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "model": options.model,
        "text": options.text.name,
        "bytes": len(text),
        "sha256": hashlib.sha256(text).hexdigest(),
        "rows": rows,
    }


def _diverge(cache: str, model: str, text: Path) -> dict[str, Any]:
    words = ["perplexity", model, "--file", str(text), "--ctx", str(CHUNK), "--backend", "cpu"]
    words += ["--mode", "as-stored", "--reference-mode", "as-stored", "--activations", "a32"]
    told = json.loads(
        run_command([*words, "--kv", cache, "--reference-kv", "fp32", "--json"]).output
    )
    print(f"{cache}: {told['kld_mean']:.3g}", file=sys.stderr, flush=True)
    return {"cache": cache} | {name: told[name] for name in _KEPT}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default=catalog.DEFAULT)
    parser.add_argument("--text", type=Path, default=ROOT / "CHANGELOG.md")
    parser.add_argument("--bytes", type=int, default=20_000, help="of the text, from its beginning")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path, help="a page whose table is replaced")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
