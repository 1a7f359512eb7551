"""Marian beside transformers."""

from __future__ import annotations

from tests.fixtures.seq2seq.marian import FAMILY
from tests.pairs import on_executors
from tests.seq2seq_checks import check_logits


@on_executors([FAMILY])
def test_logits(family, case, backend, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    check_logits(family, case, backend, tmp_path, device)
