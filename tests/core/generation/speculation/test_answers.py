"""Answers with drafts are those without, whatever happens while drafted tokens are ahead."""

import numpy as np
import pytest

from llm_lite.core.generation.guide import guide_of
from llm_lite.core.generation.prefill import PrefillOptions
from llm_lite.core.generation.speculation.answer_drafts import AnswerDrafts
from llm_lite.core.generation.speculation.speculation import LongestDrafts, Speculation
from llm_lite.core.generation.steps import MaskPending, generate_items
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.plan.attention_layers import attention_layers
from llm_lite.core.records import replace
from tests.runners import BACKENDS, exact, running

NO_END = frozenset[int]()
GREEDY = SamplingOptions(temperature=0.0, max_new_tokens=40)
SAMPLED = SamplingOptions(temperature=0.9, top_k=6, top_p=1.0, min_p=0.0, max_new_tokens=40, seed=7)


@pytest.fixture(scope="module")
def runner(tiny_llama):
    with running(tiny_llama, exact("cpu", speculate="lookup")) as runner:
        yield runner


def prompts(count, seed=0, length=20):
    """Of few tokens, so that they repeat themselves."""
    random = np.random.default_rng(seed)
    return [
        np.tile(random.integers(3, 260, random.integers(2, 6)), 8)[:length].tolist()
        for _ in range(count)
    ]


def answered(session, prompt, sampling, *, drafts, reading=None, guide=None):
    """The choices, without what tells of drafts and of a mask that was late, and the counts."""
    way = Speculation(policy=LongestDrafts()) if drafts else None
    return answer_with(session, prompt, sampling, way, reading=reading, guide=guide)


def answer_with(session, prompt, sampling, speculation, *, reading=None, guide=None):
    """The same, drafted in this way; None: token by token."""
    session.speculation = speculation
    session.clear()
    drafts = AnswerDrafts(NO_END, session.speculation)
    reading = reading or PrefillOptions()
    items = list(
        generate_items(
            session, prompt, sampling, NO_END, reading=reading, guide=guide, drafts=drafts
        )
    )
    told = [
        replace(i, accepted=False, rejected=()) if hasattr(i, "accepted") else type(i)
        for i in items
        if not isinstance(i, MaskPending)
    ]
    return told, drafts


def state(session):
    """All that is left of an answer: what the cache holds, and the queries behind maps."""
    known = replace(session.committed, version=0, epoch=0)
    rows = {name: rows.data.tobytes() for name, rows in session.copy_prefix().rows.items()}
    layers = attention_layers(session.executor.program.plans[0])
    rings = {t.name: t for p in session.executor.program.plans for t in p.tensors}
    for ring in (rings[layer.queries] for layer in layers if layer.queries):
        for position in known.rows:
            row = session.executor.read_state(ring.name, position % ring.shape[0], 1)
            rows[f"{ring.name} {position}"] = row.tobytes()
    return session.cache.contents, known, rows


@pytest.mark.parametrize("backend", BACKENDS)
def test_greedy(backend, tiny_llama, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    accepted = drafted = 0
    with running(tiny_llama, exact(backend, speculate="lookup"), device=device) as runner:
        for prompt in prompts(30 if backend == "cpu" else 4):
            plain, counts = answered(runner.session, prompt, GREEDY, drafts=False)
            left = state(runner.session)
            assert (counts.drafted, counts.accepted, counts.passes) == (0, 0, len(plain) - 2)
            found, counts = answered(runner.session, prompt, GREEDY, drafts=True)
            assert found == plain
            assert state(runner.session) == left
            assert counts.passes + counts.accepted == 39, "each token but the first has a pass"
            accepted, drafted = accepted + counts.accepted, drafted + counts.drafted
    assert 0 < accepted < drafted


CHANGES = {
    "plain": {},
    "penalties": {"repetition_penalty": 1.3, "presence_penalty": 0.4, "frequency_penalty": 0.2},
    "bias": {"logit_bias": ((5, 3.0), (9, -100.0))},
    "dry": {"dry_multiplier": 0.8},
    "xtc": {"xtc_probability": 0.5, "xtc_threshold": 0.05},
    "mirostat": {"mirostat_tau": 4.0},
    "grammar": {"grammar": 'root ::= ("a" | "b" | "ab ")+'},
}


@pytest.mark.parametrize("name", CHANGES)
def test_sampled_answers_have_the_same_tokens(name, runner):
    """One random number a position, whatever was drafted."""
    sampling = replace(SAMPLED, **CHANGES[name])
    tokenizer = runner.model_file.tokenizer
    accepted = 0
    for prompt in prompts(8, seed=1):
        answers = []
        for drafts in (False, True):
            guide = guide_of(tokenizer, sampling, None)
            told, counts = answered(runner.session, prompt, sampling, drafts=drafts, guide=guide)
            answers.append(told)
        assert answers[0] == answers[1]
        accepted += counts.accepted
    assert accepted > 0
