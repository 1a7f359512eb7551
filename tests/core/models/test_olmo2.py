"""OLMo 2: no norm stands before a block."""

from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import read_model
from tests.core.models.test_llama import OPTIONS
from tests.families import family_of
from tests.family_checks import write_case

OLMO_2 = family_of("olmo2")


def test_no_norm_stands_before(tmp_path):
    source = open_source(write_case(OLMO_2, "plain", tmp_path))
    model = read_model(source.metadata, source.tensors, source.path)
    plan = model.build(OPTIONS).plans[0]
    norms = [op.label for op in plan.ops if op.name == "rms_norm" and "layers.0" in op.label]
    stems = ("attention.q_norm", "attention.k_norm", "attention.post_norm")
    assert norms == [f"layers.0.{one}" for one in (*stems, "feed_forward.post_norm")]
