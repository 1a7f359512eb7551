from hypothesis import given
from hypothesis import strategies as st

from llm_lite.core.plan.memory import ALIGNMENT, Lifetime, place

_lifetimes = st.builds(
    lambda size, first, length: Lifetime(size, first, first + length),
    st.integers(1, 5000),
    st.integers(0, 30),
    st.integers(0, 30),
)


def _aligned(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


def _live_together(a, b):
    return a.first <= b.last and b.first <= a.last


@given(st.dictionaries(st.integers(0, 99), _lifetimes, max_size=24))
def test_what_lives_together_never_overlaps(lifetimes):
    offsets, arena = place(lifetimes)
    assert offsets.keys() == lifetimes.keys()
    for i, a in lifetimes.items():
        assert offsets[i] % ALIGNMENT == 0
        assert 0 <= offsets[i] <= arena - a.size
        for j, b in lifetimes.items():
            if i != j and _live_together(a, b):
                apart = offsets[i] + a.size <= offsets[j] or offsets[j] + b.size <= offsets[i]
                assert apart, (i, j)


@given(st.dictionaries(st.integers(0, 99), _lifetimes, max_size=24))
def test_the_arena_is_between_the_busiest_moment_and_the_sum(lifetimes):
    _, arena = place(lifetimes)
    assert arena <= sum(_aligned(life.size) for life in lifetimes.values())
    busiest = max(
        (
            sum(_aligned(b.size) for b in lifetimes.values() if b.first <= moment <= b.last)
            for moment in range(61)
        ),
        default=0,
    )
    assert arena >= busiest


def test_a_chain_needs_two_places():
    chain = {i: Lifetime(1024, i, i + 1) for i in range(10)}
    assert place(chain)[1] == 2 * 1024
