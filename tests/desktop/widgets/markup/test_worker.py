"""Formulas are set in time, however they are nested, and no other than the library sets them."""

import time

import pytest
from ziamath.nodes.mrow import Mrow

from llm_lite.desktop.widgets.markup import worker

FORMULAS = (
    r"\frac{-b \pm \sqrt{b^2 - 4ac}}{2a}",
    r"\left(\frac{1}{\left[\frac{a}{b}\right]}\right)^2",
    r"\sqrt[\left(3\right)]{\left(\frac{x^2}{\sum_i y_i}\right)}",
    r"\left\{ \begin{array}{ll} x & y \\ \left(\frac{a}{b}\right) & z \end{array} \right.",
    r"\underbrace{\left(\sqrt{\frac{a}{b}}\right)}_{n} + \overline{\left(c\right)}",
    r"f(x)=\begin{cases}1&\left(\frac12\right)\\0&y\end{cases}",
    r"\int_0^{\left(\frac{a}{b}\right)} \overrightarrow{AB}\,\big(\Big(x\Big)\big)",
)
NESTED = {
    "braces": "{" * 18 + "x" + "}" * 18,
    "fences": r"\left(" * 12 + "x" + r"\right)" * 12,
    "fractions": r"\frac{" * 14 + "x" + "}{y}" * 14,
    "roots": r"\sqrt{" * 14 + "x" + "}" * 14,
    "powers": "x^{" * 14 + "x" + "}" * 14,
}


@pytest.fixture
def measure(monkeypatch):
    """What the library does, again after the test."""
    monkeypatch.setattr(Mrow, "_get_height_nostretch", Mrow._get_height_nostretch)
    worker._measure_rows_once.cache_clear()
    yield
    worker._measure_rows_once.cache_clear()


def outline(tex):
    return worker._formula({"tex": tex, "display": True}, b"")


def test_outlines_are_the_library_s(measure, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr(worker, "_measure_rows_once", lambda: None)
        expected = [outline(tex) for tex in FORMULAS]
    assert [outline(tex) for tex in FORMULAS] == expected


@pytest.mark.parametrize("name", NESTED)
def test_nesting_costs_little(measure, name):
    """Ten times what a fast machine takes; without the shortcut some took minutes."""
    outline("x")
    began = time.thread_time()
    outline(NESTED[name])
    assert time.thread_time() - began < 0.6
