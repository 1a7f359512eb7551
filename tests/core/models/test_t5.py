"""T5 beside transformers."""

from __future__ import annotations

import pytest

from tests.fixtures.seq2seq.t5 import FAMILY
from tests.seq2seq_checks import check_logits


@pytest.mark.parametrize("case", FAMILY.cases)
@pytest.mark.parametrize("backend", ["numpy"])
def test_logits(case, backend, tmp_path):
    check_logits(FAMILY, case, backend, tmp_path, None)
