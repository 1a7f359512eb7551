"""A decoded token costs no more instructions than it did, whatever the machine's mood.

Fewer instructions are a warning: who makes the step faster writes them down with
`python -m tools.bench.token_instructions`.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import pytest

from llm_lite.core.processor import available_isas
from tools.bench import instructions
from tools.bench.token_instructions import FIGURES, ISA, KINDS, step_instructions

TOLERANCE = 0.10  # compilers differ


@pytest.mark.parametrize("kind", KINDS)
def test_a_decoded_token_costs_no_more_instructions_than_it_did(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.gettrace() is not None:
        pytest.skip("the instructions of what traces this test would be counted")
    if ISA not in available_isas():
        pytest.skip(f"the figures are of {ISA}, which this processor cannot run")
    monkeypatch.setenv("LLM_LITE_ISA", ISA)
    stored = json.loads(FIGURES.read_text())[kind]
    try:
        found = step_instructions(tmp_path, *KINDS[kind])
    except instructions.CannotCountError as reason:
        pytest.skip(str(reason))
    assert found <= stored * (1 + TOLERANCE), f"{found} instructions, {stored} are on record"
    if found < stored * (1 - TOLERANCE):  # no failure, but a guard that would see less
        warnings.warn(f"{kind}: {found} instructions, {stored} are on record", stacklevel=1)


def test_counts_grow_with_the_work() -> None:
    try:
        little, much = (instructions.count(lambda n=n: sum(range(n))) for n in (50, 250))
    except instructions.CannotCountError as reason:
        pytest.skip(str(reason))
    assert 5 * 200 < much - little < 200 * 200
