"""The builds' products beside each other: every format, and the values of the first build."""

import argparse

from llm_lite.core.processor import available_isas, emulated_isas
from tools.bench.prompt_products import FORMATS, table


def test_every_format_is_multiplied_in_every_build() -> None:
    builds = [*available_isas()[-1:], *emulated_isas()]
    sizes = {"tokens": 17, "rows": 33, "columns": 64, "threads": 1, "repeat": 1}
    rows = table(argparse.Namespace(isas=builds, formats=FORMATS, **sizes)).splitlines()
    assert [cell.strip() for cell in rows[0].split("|")[2:-2]] == builds
    assert [row.split("|")[1].strip() for row in rows[2:]] == list(FORMATS)
    for row in rows[2:]:
        assert row.count(" x)") == len(builds)
        assert float(row.split("|")[-2]) < 2e-6
