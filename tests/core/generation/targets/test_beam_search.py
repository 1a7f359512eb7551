"""Beam search beside transformers' on tiny models, and where hypotheses end."""

from __future__ import annotations

import json

import numpy as np
import pytest

from llm_lite.core.generation.beam_search import BeamOptions, BeamSearch
from llm_lite.core.plan.step import Step
from tests.fixtures.seq2seq import bart, marian, t5
from tests.seq2seq_checks import running_pair, stored, write_case
from tests.seq2seq_families import BEAMS, NEW_TOKENS

CASES = [(f, case) for f in (t5.FAMILY, marian.FAMILY, bart.FAMILY) for case in f.cases]

# Rules for targets as transformers' options of `generate` call them, and as ours do.
RULES = {
    "forced_bos_token_id": "forced_begin",
    "no_repeat_ngram_size": "no_repeat",
    "min_length": "shortest",
}


def options_of(beam, config, **changes):
    """Transformers' options of `generate` as ours."""
    ends = beam.get("eos_token_id", config["eos_token_id"])
    return BeamOptions(
        width=beam["num_beams"],
        ends=frozenset(ends if isinstance(ends, list) else [ends]),
        most_tokens=NEW_TOKENS,
        length_penalty=beam.get("length_penalty", 1.0),
        early_stopping=beam.get("early_stopping", False),
        **changes,
    )


def searched(options, logits_of):
    search = BeamSearch(options)
    while not search.is_done:
        search.advance(np.stack([logits_of(h.tokens) for h in search.running]))
    return search


@pytest.mark.parametrize(("family", "case"), CASES)
def test_it_finds_what_transformers_finds(family, case, tmp_path):
    known = stored(family.name, case)
    config, source = json.loads(str(known["config"])), known["source"].tolist()
    start = config["decoder_start_token_id"]
    with running_pair(write_case(family, case, tmp_path), "numpy") as pair:
        pair.encoder.encode(source)
        pair.encoder.hand_to(pair.decoder)

        def logits_of(tokens):
            target = np.array([start, *tokens], np.int32)
            return pair.decoder.run(Step(target, 0, 1, source=len(source)))[0]

        rules = {RULES[name]: value for name, value in family.generation.items() if name in RULES}
        for i, beam in enumerate(BEAMS):
            found = searched(options_of(beam, config, **rules), logits_of).best
            assert [start, *found.tokens] == known[f"beam.{i}"].tolist(), beam


def _fixed(*rows):
    """Logits by how many tokens there are, whatever they are."""
    table = [np.log(np.array(row, np.float32)) for row in rows]
    return lambda tokens: table[min(len(tokens), len(table) - 1)]


def test_banned_tokens_are_never_chosen_and_the_end_can_be_forced():
    options = BeamOptions(2, frozenset({3}), most_tokens=3, banned=(0,), forced_end=3)
    found = searched(options, _fixed((0.9, 0.06, 0.03, 0.01)))
    assert found.best.tokens == (1, 1, 3)
    assert all(0 not in hypothesis.tokens for hypothesis in found.finished)


def test_a_beam_of_few_tokens_stays_full():
    """All of the best end: the others go on."""
    search = BeamSearch(BeamOptions(2, frozenset({0}), most_tokens=9))
    search.advance(np.log(np.array([[0.6, 0.3, 0.1]], np.float32)))
    assert [h.tokens for h in search.running] == [(1,), (2,)]
    assert [h.tokens for h in search.finished] == [(0,)]
    search.advance(np.log(np.array([[0.9, 0.05, 0.05], [0.8, 0.1, 0.1]], np.float32)))
    assert [h.parent for h in search.running] == [0, 0]
