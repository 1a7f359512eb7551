import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_lite.core.errors import NotFiniteError, RequestError
from llm_lite.core.generation.sampling import Sampler, check, check_bias
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.records import replace

PLAIN = SamplingOptions(
    temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, seed=1
)


def options(**changes):
    return replace(PLAIN, **changes)


def logits(*probabilities):
    with np.errstate(divide="ignore"):
        return np.log(np.array(probabilities, np.float32)) + np.float32(3)


def drawn(scores, context=(), n=400, **changes):
    sampler = Sampler(options(**changes))
    return [sampler.choose(scores, context).token for _ in range(n)]


def test_greedy_takes_the_best():
    choice = Sampler(options(temperature=0.0)).choose(logits(0.2, 0.5, 0.3), ())
    assert choice.token == 1
    assert choice.probability == pytest.approx(0.5)


def test_frequencies_are_the_model_s():
    probabilities = np.array([0.1, 0.4, 0.25, 0.05, 0.2])
    counts = np.bincount(drawn(logits(*probabilities), n=5000), minlength=5)
    chi_square = ((counts - 5000 * probabilities) ** 2 / (5000 * probabilities)).sum()
    assert chi_square < 18.5, "one in a thousand with 4 degrees of freedom"


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature_is_a_power_of_the_probabilities(temperature):
    probabilities = np.array([0.6, 0.3, 0.1]) ** (1 / temperature)
    probabilities /= probabilities.sum()
    tokens = drawn(logits(0.6, 0.3, 0.1), n=5000, temperature=temperature)
    counts = np.bincount(tokens, minlength=3)
    chi_square = ((counts - 5000 * probabilities) ** 2 / (5000 * probabilities)).sum()
    assert chi_square < 13.9, "one in a thousand with 2 degrees of freedom"


def test_a_seed_repeats_and_another_does_not():
    scores = np.zeros(50, np.float32)
    assert drawn(scores, seed=5) == drawn(scores, seed=5)
    assert drawn(scores, seed=5) != drawn(scores, seed=6)
    assert drawn(scores, seed=None) != drawn(scores, seed=None)


def test_top_k():
    scores = logits(0.1, 0.3, 0.2, 0.4)
    assert set(drawn(scores, top_k=2)) == {1, 3}
    assert set(drawn(scores, top_k=1)) == {3}
    assert set(drawn(scores, top_k=4)) == set(drawn(scores, top_k=99)) == {0, 1, 2, 3}


def test_top_p_keeps_the_fewest_that_reach_it():
    scores = logits(0.1, 0.2, 0.3, 0.4)
    assert set(drawn(scores, top_p=0.35)) == {3}
    assert set(drawn(scores, top_p=0.45)) == {3, 2}
    assert set(drawn(scores, top_p=0.75)) == {3, 2, 1}
    assert set(drawn(scores, top_p=0.0)) == {3}
    assert set(drawn(np.zeros(2, np.float32), top_p=0.5)) == {0}, "reached, so no more is needed"


def test_min_p_is_relative_to_the_best():
    scores = logits(0.05, 0.15, 0.3, 0.5)
    assert set(drawn(scores, min_p=0.5)) == {3, 2}
    assert set(drawn(scores, min_p=0.2)) == {3, 2, 1}
    assert set(drawn(scores, min_p=1.0)) == {3}


def test_the_filters_look_at_the_distribution_before_temperature():
    scores = logits(0.1, 0.2, 0.3, 0.4)
    assert set(drawn(scores, min_p=0.6, temperature=50.0)) == {3, 2}
    assert set(drawn(scores, top_p=0.35, temperature=50.0)) == {3}


def test_penalty_divides_positive_and_multiplies_negative_logits():
    scores = np.array([2.0, 1.5, -1.0, -1.5], np.float32)
    greedy = {"temperature": 0.0, "repetition_penalty": 2.0}
    assert drawn(scores, [0], 1, **greedy) == [1]
    assert drawn(scores[2:], [0], 1, **greedy) == [1], "-1 became -2"
    assert drawn(scores, [0, 0, 0], 1, **{**greedy, "repetition_penalty": 1.3}) == [0], "once only"
    assert scores.tolist() == [2.0, 1.5, -1.0, -1.5], "the caller's logits stay"


def test_penalty_looks_back_as_far_as_its_window():
    scores = np.array([2.0, 1.5, 0.0], np.float32)
    greedy = {"temperature": 0.0, "repetition_penalty": 2.0}
    assert drawn(scores, [0, 2, 2], 1, penalty_window=2, **greedy) == [0]
    assert drawn(scores, [0, 2, 2], 1, penalty_window=3, **greedy) == [1]
    assert drawn(scores, [0, 2, 2], 1, penalty_window=0, **greedy) == [0]


def test_the_probability_told_is_the_model_s_own():
    scores = logits(0.1, 0.9)
    sampler = Sampler(options(temperature=30.0, repetition_penalty=5.0, top_k=2))
    told = {}
    for _ in range(100):
        choice = sampler.choose(scores, [1])
        told[choice.token] = choice.probability
    assert told == {0: pytest.approx(0.1), 1: pytest.approx(0.9)}


_finite = st.floats(-(2.0**100), 2.0**100, width=32)


@given(
    st.lists(_finite | st.just(-math.inf), min_size=1, max_size=40).filter(
        lambda v: max(v) > -math.inf
    ),
    st.sampled_from([0.0, 5e-324, 1e-3, 0.7, 100.0]),
    st.integers(0, 50),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sampled_from([0.01, 1.0, 1.1, 100.0]),
)
def test_any_distribution_gives_a_possible_token(values, temperature, top_k, top_p, min_p, penalty):
    scores = np.array(values, np.float32)
    sampler = Sampler(
        SamplingOptions(
            temperature, top_k, top_p, min_p, repetition_penalty=penalty, penalty_window=4, seed=0
        )
    )
    choice = sampler.choose(scores, [0])
    assert scores[choice.token] > -math.inf
    assert 0 <= choice.probability <= 1.0000001
    all_probabilities = np.exp(scores.astype(float) - scores.max())
    expected = all_probabilities[choice.token] / all_probabilities.sum()
    assert choice.probability == pytest.approx(expected, rel=1e-4, abs=1e-30)


def test_a_tiny_temperature_is_greedy():
    assert set(drawn(logits(0.3, 0.4, 0.3), temperature=5e-324)) == {1}


@pytest.mark.parametrize("bad", [[1, math.nan, 2], [1, math.inf], [-math.inf] * 3, [math.nan] * 2])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_logits_that_are_no_numbers_are_refused(bad, temperature):
    with pytest.raises(NotFiniteError, match="not finite numbers"):
        Sampler(options(temperature=temperature)).choose(np.array(bad, np.float32), ())


def test_repetition_penalty_is_off_at_first():
    defaults = SamplingOptions()
    assert defaults.repetition_penalty == 1.0
    assert defaults.presence_penalty == defaults.frequency_penalty == defaults.dry_multiplier == 0


def test_frequency_counts_and_presence_does_not():
    scores = np.array([2.0, 1.5, 1.2], np.float32)
    greedy = {"temperature": 0.0}
    assert drawn(scores, [0, 1, 0], 1, presence_penalty=0.6, **greedy) == [0]
    assert drawn(scores, [0, 1, 0], 1, frequency_penalty=0.6, **greedy) == [2]
    assert drawn(scores, [0, 1, 0], 1, frequency_penalty=0.6, penalty_window=1, **greedy) == [1]


def test_a_bias_is_added_before_everything():
    scores = logits(0.1, 0.2, 0.7)
    assert set(drawn(scores, logit_bias=((2, -100.0),))) == {0, 1}
    assert set(drawn(scores, logit_bias=((0, 100.0),))) == {0}
    assert drawn(scores, n=1, temperature=0.0, logit_bias=((0, 3.0),)) == [0]
    with pytest.raises(RequestError, match=r"token 3 is not in 0\.\.2"):
        check_bias(options(logit_bias=((3, 1.0),)), 3)


def test_typical_drops_what_is_too_likely_too():
    scores = logits(0.4, *[0.02] * 30)  # 2.7 nats of entropy: 0.9 and 3.9 of surprise
    assert set(drawn(scores, typical_p=0.29)) == set(range(1, 16))
    assert 0 in drawn(scores, typical_p=0.7)
    assert 0 in drawn(scores, typical_p=1.0)


def test_xtc_leaves_the_least_likely_of_those_that_reach_the_threshold():
    scores = logits(0.4, 0.3, 0.2, 0.1)
    assert set(drawn(scores, xtc_probability=1.0, xtc_threshold=0.15)) == {2, 3}
    assert set(drawn(scores, xtc_probability=1.0, xtc_threshold=0.35)) == {0, 1, 2, 3}
    some = drawn(scores, xtc_probability=0.5, xtc_threshold=0.15, n=4000)
    assert 0.15 < np.mean(np.array(some) == 0) < 0.25, "half the time the likeliest is there"


def test_dry_grows_with_the_repeat_and_stops_at_a_breaker():
    scores = np.array([2.0, 1.0, 0.0], np.float32)
    repeat = {"temperature": 0.0, "dry_multiplier": 0.6, "dry_base": 2.0}
    assert drawn(scores, [1, 2, 0, 1], 1, **repeat) == [0], "a single token may repeat"
    assert drawn(scores, [0, 1, 2, 0, 1, 2], 1, **repeat) == [1], "three may not"
    assert drawn(scores, [1, 2, 0, 1, 2], 1, **repeat, dry_allowed_length=3) == [0]
    assert drawn(scores, [0, 1, 2, 0, 1, 2], 1, **repeat, dry_window=3) == [0]
    for breaker, token in (("c", 0), ("bc", 0), ("x", 1)):
        sampler = Sampler(options(**repeat, dry_breakers=(breaker,)), lambda t: b"abc"[t : t + 1])
        assert sampler.choose(scores, [0, 1, 2, 0, 1, 2]).token == token


def test_mirostat_keeps_the_surprise_that_it_aims_at():
    random = np.random.default_rng(0)
    scores = random.normal(0, 2, 2000).astype(np.float32)
    p = np.exp(scores - scores.max())
    p /= p.sum()
    means = {
        tau: np.mean(-np.log2(p[drawn(scores, mirostat_tau=tau)])) for tau in (0.5, 3.0, 6.0, 50.0)
    }
    assert list(means.values()) == sorted(means.values())
    free = np.mean(-np.log2(p[drawn(scores)]))
    assert means[50.0] == pytest.approx(free, abs=0.01), "nothing is that surprising"
    # What was left is made whole before its surprise is measured, so it is less than the model's.
    assert 6.0 < means[6.0] < 8.0


def test_a_mask_forbids_and_the_probability_stays_the_model_s():
    scores = logits(0.1, 0.2, 0.7)
    sampler = Sampler(options())
    chosen = [sampler.choose(scores, (), np.array([0b11], np.uint32)) for _ in range(100)]
    assert {(c.token, round(c.probability, 3)) for c in chosen} == {(0, 0.1), (1, 0.2)}
    assert chosen[0].best[0][0] == 2, "what the model would have liked is told"
    allowed = chosen[0].allowed
    assert (allowed.count, round(allowed.probability, 3)) == (2, 0.3)
    assert [(token, round(p, 3)) for token, p in allowed.best] == [(1, 0.2), (0, 0.1)]
    assert sampler.choose(scores, ()).allowed is None
    long = np.zeros(100, np.float32)
    assert sampler.choose(long, (), np.array([4], np.uint32)).token == 2, "a short mask forbids"
    with pytest.raises(RequestError, match="no token is allowed"):
        sampler.choose(scores, (), np.array([0], np.uint32))


OUT_OF_RANGE = {
    "temperature": (-0.1, 100.5, math.nan, math.inf),
    "top_k": (-1,),
    "top_p": (-0.1, 1.1, math.nan),
    "min_p": (-0.1, 1.1, math.nan),
    "repetition_penalty": (0.0, -1.0, 101.0, math.nan),
    "penalty_window": (-1,),
    "max_new_tokens": (0, -5),
    "max_thinking_tokens": (-1,),
    "presence_penalty": (-101.0, math.nan),
    "frequency_penalty": (101.0, math.nan),
    "seed": (-1, 1 << 64),
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in OUT_OF_RANGE.items() for v in vs])
def test_a_setting_out_of_range_is_named(name, value):
    words = name.replace("top_", "top-").replace("min_", "min-").replace("_", " ")
    with pytest.raises(RequestError, match=f"{words}: expected .* found"):
        check(options(**{name: value}))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"typical_p": 1.5}, "typical-p: expected 0.0 to 1.0, found 1.5"),
        ({"xtc_threshold": -1.0}, "XTC threshold: expected"),
        ({"dry_base": 0.5}, "DRY base: expected"),
        ({"dry_allowed_length": 0}, "DRY allowed length: expected"),
        ({"mirostat_tau": math.nan}, "Mirostat tau: expected"),
        ({"stop": ("",)}, "stop strings: expected 1 to 1000 characters, found 0 characters"),
        ({"stop": ("a",) * 33}, "stop strings: expected at most 32, found 33"),
        ({"logit_bias": ((-1, 0.0),)}, "logit bias: expected a token id and -100 to 100"),
        ({"logit_bias": ((1, math.inf),)}, "logit bias: expected"),
        ({"json_schema": "{}", "grammar": 'root ::= "a"'}, "found both"),
    ],
)
def test_other_settings_are_named_too(changes, sentence):
    with pytest.raises(RequestError, match=sentence):
        check(options(**changes))


def test_the_borders_are_allowed():
    check(options(temperature=0.0, top_k=0, top_p=0.0, min_p=1.0, seed=(1 << 64) - 1))
    check(options(temperature=100.0, repetition_penalty=0.01, max_new_tokens=1, seed=0))
