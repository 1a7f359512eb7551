"""OLMo 3: layers with windows rotate unscaled."""

from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.attention_layers import attention_layers
from tests.core.models.test_llama import OPTIONS
from tests.families import family_of
from tests.family_checks import write_case

OLMO_3 = family_of("olmo3")


def test_layers_with_windows_rotate_unscaled(tmp_path):
    source = open_source(write_case(OLMO_3, "yarn", tmp_path))
    plan = read_model(source.metadata, source.tensors, source.path).build(OPTIONS).plans[0]
    assert [layer.window for layer in attention_layers(plan)] == [5, 5, 5, 0, 5]
    ropes = [len(op.inputs) for op in plan.ops if op.label.endswith(".q_rope")]
    assert ropes == [1, 1, 1, 2, 1]
    scales = [round(layer.scale, 3) for layer in attention_layers(plan)]
    usual = round(12**-0.5, 3)
    assert scales[:3] == [usual] * 3 and scales[3] > usual
