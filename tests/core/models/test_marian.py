"""Marian beside transformers."""

from __future__ import annotations

import pytest

from tests.fixtures.seq2seq.marian import FAMILY
from tests.runners import BACKENDS
from tests.seq2seq_checks import check_logits


@pytest.mark.parametrize("case", FAMILY.cases)
@pytest.mark.parametrize("backend", BACKENDS)
def test_logits(case, backend, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    check_logits(FAMILY, case, backend, tmp_path, device)
