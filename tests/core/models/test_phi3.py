"""Phi-3 and Phi-4-mini: fused matrices are cut into views."""

import numpy as np
import pytest

from llm_lite.core.convert.quantizing import quantize
from llm_lite.core.loading import loader
from llm_lite.core.loading.sources import open_source
from tests.families import family_of
from tests.family_checks import TOLERANCE, reference, write_case, write_gguf
from tests.runners import exact, running

PHI_3 = family_of("phi3")


@pytest.mark.parametrize("form", ["checkpoint", "gguf"])
def test_parts_of_fused_matrices_are_views(form, tmp_path):
    if form == "gguf":
        write_gguf(PHI_3, "window", tmp_path / "m.gguf")
        source = open_source(tmp_path / "m.gguf")
    else:
        source = open_source(write_case(PHI_3, "window", tmp_path))
    q, k, v = (source.tensors[f"blk.1.attn_{one}.weight"] for one in "qkv")
    assert not any(tensor.data.flags.owndata for tensor in (q, k, v))
    assert [tensor.shape for tensor in (q, k, v)] == [(48, 48)] * 3
    begins = [tensor.data.__array_interface__["data"][0] for tensor in (q, k, v)]
    assert np.diff(begins).tolist() == [q.nbytes, k.nbytes]
    gate, up = (source.tensors[f"blk.1.ffn_{one}.weight"] for one in ("gate", "up"))
    assert gate.shape == up.shape == (75, 48)


def test_a_variant_holds_the_same_model(tmp_path):
    """It has the parts, and the factors that were made."""
    case = "longrope of a part"
    file = loader.open_model(str(write_case(PHI_3, case, tmp_path / "m")), lambda *_: None, print)
    quantize(file, tmp_path / "variant", "fp32")
    file.close()
    known = reference(PHI_3, case)
    with running(tmp_path / "variant", exact("cpu", context=64), every_output=True) as runner:
        logits = runner.session.logits(known.tokens)
    assert np.abs(logits - known.logits).max() < TOLERANCE
