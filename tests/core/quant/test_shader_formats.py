"""A format of weights has one decoder in GLSL: kernels that read texels are made of it too."""

import re

import pytest

from llm_lite.core.gpu.shaders import load_spirv
from llm_lite.core.quant.formats import KERNEL_FORMATS
from tests.paths import ROOT

GLSL = ROOT / "kernels_glsl"
MULTIPLIED = [name for name, form in KERNEL_FORMATS.items() if form.layout != "rows"]
DECODERS = {path.stem: path.read_text() for path in (GLSL / "quant").glob("*.glsl")}


def test_every_format_has_a_decoder_and_nothing_else_has():
    assert set(DECODERS) == {name.removesuffix("_tiles") for name in MULTIPLIED}


def test_no_kernel_names_a_format():
    decoders = GLSL / "quant"
    names = "|".join(KERNEL_FORMATS)
    named = re.compile(rf"#.*\b(FORMAT_\w+|{names})\b", re.IGNORECASE)
    others = [path for path in GLSL.rglob("*.glsl") if path.parent != decoders]
    for path in [*others, *GLSL.glob("*.comp")]:
        lines = [line for line in path.read_text().splitlines() if not line.startswith("//")]
        assert not [line for line in lines if named.search(line)], path


@pytest.mark.parametrize("name", MULTIPLIED)
@pytest.mark.parametrize("kernel", ["embed", "matvec", "matmul", "matmul_rows"])
def test_every_kernel_of_weights_is_there(name, kernel):
    assert load_spirv(f"{kernel}.{name}")
