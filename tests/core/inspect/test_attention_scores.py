"""Scores of maps that are made to have them, and of SmolLM2's heads on a repeated sequence."""

import math

import numpy as np
import pytest

from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.inspect.attention_scores import ROWS, SCORES, means, of_kind
from tests.runners import exact, running

TOKENS = [5, 6, 7, 5, 6, 9, 5]


def looking_at(targets, length=None):
    """A map [1, T, C] whose row t has its whole weight on position targets[t]."""
    maps = np.zeros((1, len(targets), length or len(targets)), np.float32)
    maps[0, np.arange(len(targets)), targets] = 1
    return maps


def score(name, maps, tokens=TOKENS, positions=None):
    positions = range(maps.shape[1]) if positions is None else positions
    found = SCORES[name](maps, np.asarray(positions), tokens)
    assert found.dtype == np.float32 and found.shape == (len(maps),)
    return found.tolist()


def test_entropy():
    even = np.tril(np.ones((7, 7), np.float32)) / np.arange(1, 8, dtype=np.float32)[:, None]
    maps = np.stack([looking_at([0, 1, 2, 3, 4, 5, 6])[0], even])
    sharp, flat = score("entropy", maps)
    assert sharp == 0
    assert flat == pytest.approx(np.mean([math.log(n) for n in range(1, 8)]))


def test_previous_token():
    assert score("previous", looking_at([0, 0, 1, 2, 3, 4, 5])) == [1]
    assert score("previous", looking_at([0, 1, 1, 3, 3, 5, 5])) == [0.5]


def test_first_token():
    assert score("first", looking_at([0, 0, 0, 0, 4, 5, 6])) == [0.5]


def test_duplicate_token():
    """Rows 3, 4 and 6 have their token before; row 6 has it twice."""
    assert score("duplicate", looking_at([0, 1, 2, 0, 1, 5, 3])) == [1]
    assert score("duplicate", looking_at([0, 0, 0, 0, 0, 0, 6])) == pytest.approx([1 / 3])
    both = looking_at([0, 1, 2, 0, 1, 5, 0])
    both[0, 6, [0, 3]] = 0.5
    assert score("duplicate", both) == [1]


def test_induction():
    """After 5 came 6 (1, then 4), after 6 came 7 (2): rows 3, 4 and 6 can tell."""
    assert score("induction", looking_at([0, 1, 2, 1, 2, 5, 4])) == [1]
    assert score("induction", looking_at([0, 0, 0, 1, 0, 0, 0])) == pytest.approx([1 / 3])
    assert score("induction", looking_at([0, 1, 2, 0, 1, 5, 3])) == [0], "that is the duplicate"


def test_a_token_twice_in_a_row_comes_after_itself():
    assert score("induction", looking_at([0, 1]), tokens=[5, 5]) == [1]


def test_scores_of_some_rows_only():
    rows = [3, 4, 6]
    found = score("induction", looking_at([1, 2, 4], length=7), positions=rows)
    assert found == [1]
    assert score("previous", looking_at([2, 3, 6], length=7), positions=rows) == pytest.approx(
        [2 / 3]
    )


@pytest.mark.parametrize("name", sorted(set(SCORES) - {"entropy"}))
def test_where_nothing_can_be_told(name):
    assert math.isnan(score(name, looking_at([0]), tokens=[5])[0])
    if name in ("duplicate", "induction"):
        assert math.isnan(score(name, looking_at([0, 0, 0]), tokens=[5, 6, 7])[0])


def test_means_of_sums_are_the_scores():
    """As a device keeps them: sums of all scores in order, then how many rows of each kind."""
    rng, positions = np.random.default_rng(2), np.arange(2, 7)
    maps = np.tril(rng.random((3, 7, 7)).astype(np.float32))[:, 2:]
    maps /= maps.sum(axis=2, keepdims=True)
    kinds = {name: of_kind(name, positions, TOKENS) for name in ROWS}
    columns = [s.of(maps, positions, TOKENS)[:, kinds[s.rows]].sum(axis=1) for s in SCORES.values()]
    columns += [np.full(3, kinds[name].sum()) for name in ROWS]
    found = means(np.stack(columns, axis=1).astype(np.float32))
    for name, measure in SCORES.items():
        np.testing.assert_allclose(found[name], measure(maps, positions, TOKENS), rtol=1e-6)


def repeated(count, seed):
    """Random ids, then the same again: nothing but the repeat tells what comes next."""
    half = np.random.default_rng(seed).integers(1000, 40_000, count).tolist()
    return half + half


@pytest.fixture(scope="module")
def found(smollm2):
    """Scores [layers, heads] of SmolLM2 on 2 x 64 random tokens, by name."""
    tokens = repeated(64, seed=0)
    scores = {name: np.empty((30, 9)) for name in SCORES}
    with running(smollm2, exact("cpu")) as runner:
        runner.session.prefill(tokens)
        source = runner.attention
        maps = np.empty((9, len(tokens), len(tokens)), np.float32)
        for layer in range(30):
            head_maps(source, layer, range(9), maps)
            for name, measure in SCORES.items():
                scores[name][layer] = measure(maps, source.rows, tokens)
    return scores


def ranking(scores):
    """((layer, head), score), the highest first."""
    flat = scores.reshape(-1)
    return [(divmod(int(i), 9), float(flat[i])) for i in np.argsort(-flat)]


def test_induction_heads_stand_out(found):
    ranked = ranking(found["induction"])
    assert [head for head, _ in ranked[:3]] == [(18, 6), (17, 3), (17, 4)]
    assert ranked[0][1] > 0.85
    assert ranked[4][1] > 0.6
    assert np.median(found["induction"]) < 0.01


def test_previous_token_heads_stand_out(found):
    ranked = ranking(found["previous"])
    assert [head for head, _ in ranked[:2]] == [(16, 0), (11, 1)]
    assert ranked[1][1] > 0.8
    assert np.median(found["previous"]) < 0.05


def test_induction_needs_an_earlier_layer(found):
    """Heads that look one back write what induction heads of later layers read."""
    induction = [layer for (layer, _), score in ranking(found["induction"]) if score > 0.3]
    previous = [layer for (layer, _), score in ranking(found["previous"]) if score > 0.6]
    assert min(previous) < min(induction)
