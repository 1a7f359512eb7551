"""The forms of the kernel study in C++: NumPy's product from each, in every build."""

import numpy as np
import pytest

from llm_lite.core.metrics.kernel_study import forms
from llm_lite.core.metrics.kernel_study.on_cpu import CpuProducts
from llm_lite.core.metrics.kernel_study.study import operands
from llm_lite.core.processor import available_isas

# M, N, K: one, odd, prime, about a tile and about a vector, several tiles and a rest
SIZES = [(1, 1, 1), (13, 127, 1), (1, 13, 127), (127, 1, 13), (17, 16, 15), (65, 130, 67)]


def quiet(*_):
    pass


def check_forms(products, a, b, known):
    expected = a.astype(np.float64) @ b.T.astype(np.float64)
    scale = np.sqrt(a.shape[1])
    for form in known:
        assert products.paced(form).whole(quiet) > 0
        found = products.result(form)
        assert np.abs(found - expected).max() <= 1e-5 * scale, form.name
        found[:] = np.nan  # in C++ the memory itself


@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize("size", SIZES)
def test_every_form_in_cpp_gives_the_product(isa, size):
    a, b = operands(*size)
    for threads in (1, 3):
        check_forms(CpuProducts(a, b, threads, isa), a, b, forms.CPU)


def test_bad_shapes_are_refused():
    a, b = operands(3, 4, 5)
    products = CpuProducts(a, b, 1)
    for arguments in [(a, a, 0, 3), (a, b, 0, 4), (a, b, 2, 2), (a, b, -1, 3)]:
        x, y, first, last = arguments
        with pytest.raises(ValueError):
            products._study.run("naive", x, y, products._c, first, last)
    with pytest.raises(ValueError):
        products._study.run("fastest", a, b, products._c, 0, 3)
