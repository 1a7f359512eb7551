"""The kernels that read rows of logits, on every instruction set, against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llm_lite_kernels import _cpp
from numpy.typing import NDArray

from llm_lite.core.generation import reference_choice
from llm_lite.core.generation.token_choice import DrawState, kernel_options
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.processor import available_isas
from tests.pairs import pairs

F32 = NDArray[np.float32]
KERNELS = {isa: _cpp.Logits(isa) for isa in available_isas()}
SIZES = (1, 3, 15, 16, 17, 127, 128, 129, 1000, 49152)


def rows(size: int) -> list[F32]:
    """Of normal numbers, of many equal ones, of some that cannot be."""
    random = np.random.default_rng(size)
    spread = random.normal(0, 5, size).astype(np.float32)
    masked = np.where(random.random(size) < 0.5, spread, -np.inf).astype(np.float32)
    masked[random.integers(size)] = 2.0
    return [spread, random.integers(0, 4, size).astype(np.float32), masked]


@pytest.mark.parametrize("isa", KERNELS)
def test_sum_of_exponentials(isa: str) -> None:
    for values in (row for size in SIZES for row in rows(size)):
        largest, total = KERNELS[isa].sum_exp(values)
        assert largest == values.max()
        assert total == pytest.approx(np.exp(values.astype(float) - largest).sum(), rel=1e-6)


@pytest.mark.parametrize("isa", KERNELS)
def test_what_is_no_number_is_seen(isa: str) -> None:
    for size, place, bad in pairs(SIZES, (0, 0.4, 1), (math.nan, math.inf)):
        values = rows(size)[0]
        values[round(place * (size - 1))] = bad
        largest, total = KERNELS[isa].sum_exp(values)
        assert not (math.isfinite(largest) and math.isfinite(total)), (size, place, bad)
    for size in SIZES:
        assert KERNELS[isa].sum_exp(np.full(size, -np.inf, np.float32))[0] == -math.inf


@pytest.mark.parametrize("isa", KERNELS)
def test_the_largest_fall_and_equal_ones_keep_their_order(isa: str) -> None:
    for values in (row for size in SIZES for row in rows(size)):
        falling = np.argsort(-values, kind="stable")
        size = len(values)
        for count in {0, 1, min(5, size), min(40, size), size}:
            found = KERNELS[isa].largest(values, count)
            np.testing.assert_array_equal(found, falling[:count])


@pytest.mark.parametrize("isa", KERNELS)
@pytest.mark.parametrize("share", [0.01, 0.5, 1.0])
def test_what_a_mask_allows(isa: str, share: float) -> None:
    for size in SIZES:
        values, random = rows(size)[0], np.random.default_rng(size)
        may = random.random(size) < share
        may[random.integers(size)] = True
        padded = np.append(may, random.random(-size % 32) < 0.5)  # bits of no token
        mask = np.packbits(padded, bitorder="little").view(np.uint32)
        count, largest, total, best = KERNELS[isa].allowed(values, mask, 5)
        ids = np.flatnonzero(may)
        assert (count, largest) == (len(ids), values[ids].max())
        assert total == pytest.approx(np.exp(values[ids].astype(float) - largest).sum(), rel=1e-6)
        falling = ids[np.argsort(-values[ids], kind="stable")]
        np.testing.assert_array_equal(best, falling[:5])
    with pytest.raises(ValueError, match="a mask of N bits"):
        KERNELS[isa].allowed(values, mask[:-1], 5)


@st.composite
def choices(draw: st.DrawFn) -> tuple[F32, SamplingOptions, DrawState]:
    """Logits, options and a state; most options are off, as they are used."""

    def one_of(off: float, *others: float) -> float:
        return draw(st.sampled_from((off, off, *others)))

    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    size = draw(st.sampled_from([1, 2, 17, 129, 700]))
    logits = random.normal(0, 3, size).astype(np.float32)
    few = min(size, 6)  # so that tokens repeat
    biased = random.integers(0, size, draw(st.sampled_from([0, 0, 3]))).tolist()
    options = SamplingOptions(
        temperature=draw(st.sampled_from([0.0, 0.3, 1.0, 30.0])),
        top_k=draw(st.sampled_from([0, 1, 3, 40, 5000])),
        top_p=one_of(1.0, 0.0, 0.31, 0.9),
        min_p=one_of(0.0, 0.05, 1.0),
        typical_p=one_of(1.0, 0.0, 0.2, 0.8),
        xtc_probability=one_of(0.0, 0.5, 1.0),
        xtc_threshold=draw(st.sampled_from([0.0, 0.01, 0.1, 0.5, 0.6])),
        repetition_penalty=one_of(1.0, 0.5, 1.1, 3.0),
        presence_penalty=one_of(0.0, -1.0, 0.7),
        frequency_penalty=one_of(0.0, -0.3, 0.9),
        dry_multiplier=one_of(0.0, 0.8, 3.0),
        dry_base=draw(st.sampled_from([1.0, 1.75, 100.0])),
        dry_allowed_length=draw(st.sampled_from([1, 2, 4])),
        mirostat_tau=one_of(0.0, 0.0, 5.0),
        logit_bias=tuple((token, float(random.normal(0, 5))) for token in biased),
    )
    mask = None
    if draw(st.booleans()):
        bits = random.random(32 * -(-size // 32)) < draw(st.sampled_from([0.02, 0.5, 1.0]))
        mask = np.packbits(bits, bitorder="little").view(np.uint32)
    state = DrawState(
        uniform=draw(st.sampled_from([0.0, 0.123, 0.5, 0.87, 0.999])),
        xtc_uniform=draw(st.sampled_from([0.0, 0.4, 0.7])),
        recent=random.integers(0, size, random.integers(0, 20)),
        repeats=random.integers(0, few, random.integers(0, 60)),
        unbroken=draw(st.sampled_from([0, 1, 3, 1000])),
        mask=mask,
        mu=draw(st.sampled_from([0.0, 0.5, 3.3, 10.1])),
    )
    return logits, options, state


@settings(max_examples=400)
@pytest.mark.parametrize("isa", KERNELS)
@given(choice=choices())
def test_a_draw_is_the_plain_one(isa: str, choice: tuple[F32, SamplingOptions, DrawState]) -> None:
    logits, options, state = choice
    token, surprise = drawn(isa, logits, options, state)
    assert token == reference_choice.draw(logits, options, state)
    assert surprise >= 0


@pytest.mark.parametrize("isa", KERNELS)
def test_the_whole_mass_has_the_unlikeliest_token_too(isa: str) -> None:
    """At a temperature that makes it likely, though sums to 1 are reached before it."""
    logits = np.array([1.0, 0.5, 0.3, 0.2, -90.0], np.float32)
    options, nothing = (
        SamplingOptions(temperature=30.0, top_k=0, top_p=1.0, min_p=0.0),
        np.zeros(0, np.int64),
    )
    state = DrawState(0.999, 0.0, nothing, nothing, 0, None, 0.0)
    assert drawn(isa, logits, options, state)[0] == 4
    assert reference_choice.draw(logits, options, state) == 4


def drawn(isa: str, logits: F32, options: SamplingOptions, state: DrawState) -> tuple[int, float]:
    found: tuple[int, float] = KERNELS[isa].draw(
        logits,
        kernel_options(options),
        state.recent,
        state.repeats,
        state.unbroken,
        state.mask,
        state.mu,
        state.uniform,
        state.xtc_uniform,
    )
    return found


def test_repeats_are_measured_at_their_ends() -> None:
    tokens = np.array([7, 1, 2, 3, 9, 5, 2, 3, 4, 1, 2, 3], np.int64)
    assert reference_choice.repeats(tokens, 100) == {1: 0, 2: 0, 3: 0, 9: 3, 5: 0, 4: 2}
    assert reference_choice.repeats(tokens, 2)[9] == 2, "a breaker stands before the others"
    assert reference_choice.repeats(tokens[:0], 100) == {}


def test_bad_requests_are_refused() -> None:
    isa, values = available_isas()[0], np.zeros(3, np.float32)
    kernels = KERNELS[isa]

    def draw(state: DrawState, options: SamplingOptions = SamplingOptions()) -> None:  # noqa: B008
        drawn(isa, values, options, state)

    for call in (
        lambda: kernels.largest(values, 4),
        lambda: kernels.largest(values, -1),
        lambda: kernels.sum_exp(values[:0]),
        lambda: kernels.sum_exp(values.reshape(1, 3)),
        lambda: draw(DrawState(0.5, recent=np.array([3]))),
        lambda: draw(DrawState(0.5, repeats=np.array([-1]))),
        lambda: draw(DrawState(0.5, mask=np.zeros(0, np.uint32))),
        lambda: draw(DrawState(0.5), SamplingOptions(logit_bias=((3, 1.0),))),
    ):
        with pytest.raises(ValueError, match="expected"):
            call()
