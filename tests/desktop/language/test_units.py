"""Numbers and sentences as people read them."""

import pytest

from llm_lite.desktop.language import units


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (98_000_000, "93.5 MiB"),
        (1 << 50, "1024.0 TiB"),
    ],
)
def test_size(count, text):
    assert units.size(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(999, "999"), (1500, "1.5 k"), (134_515_008, "134.5 M")]
)
def test_quantity(count, text):
    assert units.quantity(count) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "–"), (4.26, "4.3"), (153.2, "153"), (37_803, "37,803")]
)
def test_rate(value, text):
    assert units.rate(value) == text


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [(-1.25, "z.2f", "−1.25"), (-0.001, "z.2f", "0.00"), (3.0, "+z.1f", "+3.0")],
)
def test_signed(value, form, text):
    assert units.signed(value, form) == text


@pytest.mark.parametrize(("value", "text"), [(0, "–"), (229.4, "229 ms"), (12_340, "12.3 s")])
def test_duration(value, text):
    assert units.duration(value) == text


@pytest.mark.parametrize(
    ("source", "name"),
    [("/a/b.gguf", "b"), ("name-1.5b", "name-1.5b"), ("", ""), ("/a/b.c.GGUF", "b.c")],
)
def test_short_name(source, name):
    assert units.short_name(source) == name


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the device was lost", "The device was lost."),
        ("/a/b.gguf: no such file", "/a/b.gguf: no such file."),
        ("model.gguf: bad", "model.gguf: bad."),
        ("Already one.", "Already one."),
        ("", ""),
    ],
)
def test_sentence(text, shown):
    assert units.sentence(text) == shown
