"""Sampled with drafts, answers have the model's own distribution: Pearson's chi-squared."""

import itertools

import numpy as np
import pytest

from llm_lite.core.generation.sampling import TokenChoice
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.speculation.answer_drafts import AnswerDrafts
from llm_lite.core.generation.speculation.draft import Draft
from llm_lite.core.generation.speculation.speculation import LongestDrafts, Speculation
from llm_lite.core.generation.steps import generate_items
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.records import replace
from tests.core.generation.speculation.test_answers import NO_END
from tests.runners import exact, running

DRAWS, KEPT, LENGTH = 3000, 3, 3  # answers; top-k; tokens of each
PROMPT = [5, 6, 7, 8] * 4
# Of 26 degrees of freedom, what chance exceeds once in 1000; seeds are fixed, so it is exceeded
# always or never.
MOST = 54.05


class Guesses:
    """A source of drafts that says what is likeliest to follow a prefix of an answer."""

    name, seconds_per_token = "lookup", 0.0

    def __init__(self, chances):
        self._chances, self._text = chances, []

    def begin(self, tokens):
        self._text = list(tokens[len(PROMPT) :])

    def add(self, token):
        self._text.append(token)

    def draft(self, most, should_stop=None):
        begun = [key for key in self._chances if list(key[: len(self._text)]) == self._text]
        likeliest = max(begun, key=self._chances.get)
        return Draft(likeliest[len(self._text) :][:most], 1)


def expected(session, temperature):
    """The probability of every answer, by decoding it without drafts."""
    found = {(): 1.0}
    for _ in range(LENGTH):
        longer = {}
        for said, share in found.items():
            session.clear()
            logits = session.prefill([*PROMPT, *said]).astype(np.float64) / temperature
            best = np.argsort(-logits)[:KEPT]
            weights = np.exp(logits[best] - logits[best[0]])
            for token, weight in zip(best.tolist(), weights / weights.sum(), strict=True):
                longer[*said, token] = share * float(weight)
        found = longer
    return found


def drawn(session, sampling, counts):
    """One answer."""
    items = generate_items(session, PROMPT, sampling, NO_END, drafts=counts)
    return tuple(item.token for item in items if isinstance(item, TokenChoice))


@pytest.mark.parametrize("temperature", (0.7, 1.0, 2.5))
def test_answers_are_distributed_as_without_drafts(temperature, tiny_llama):
    with running(tiny_llama, exact("cpu", speculate="lookup")) as runner:
        session: Session = runner.session
        chances = expected(session, temperature)
        session.speculation = Speculation((Guesses(chances),), LongestDrafts())
        counts = AnswerDrafts(NO_END, session.speculation)
        seen = dict.fromkeys(chances, 0)
        plain = SamplingOptions(
            temperature=temperature, top_k=KEPT, top_p=1.0, min_p=0.0, max_new_tokens=LENGTH
        )
        for seed in range(DRAWS):
            seen[drawn(session, replace(plain, seed=seed), counts)] += 1
    assert 100 < counts.accepted < counts.drafted - 100, "accepted and rejected"
    rare = sum(p * DRAWS for p in chances.values() if p * DRAWS < 5)
    usual = [key for key, p in chances.items() if p * DRAWS >= 5]
    differences = [(seen[k] - chances[k] * DRAWS) ** 2 / (chances[k] * DRAWS) for k in usual]
    left = DRAWS - sum(seen[k] for k in usual)
    differences.append((left - rare) ** 2 / rare if rare else 0.0)
    assert sum(differences) < MOST
    assert len(list(itertools.compress(usual, map(seen.get, usual)))) > 5
