"""From a source to a target: greedy and with beams, beside transformers; what is refused."""

from __future__ import annotations

import json

import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.generation.steps import generate
from llm_lite.core.loading.beside import translator_of
from llm_lite.core.messages import SamplingOptions
from tests.fixtures.seq2seq import marian, t5
from tests.runners import exact, running
from tests.seq2seq_checks import stored, write_case
from tests.seq2seq_families import NEW_TOKENS


@pytest.mark.parametrize(("family", "case"), [(t5.FAMILY, "gated"), (marian.FAMILY, "plain")])
def test_targets_are_those_of_transformers(family, case, tmp_path):
    known = stored(family.name, case)
    source = known["source"].tolist()
    with running(write_case(family, case, tmp_path), exact("cpu")) as runner:
        translator = translator_of(runner)
        for beams, name in ((1, "greedy"), (4, "beam.0")):
            seen = []
            options = translator.options(beams, NEW_TOKENS)
            target = translator.translate(source, options, seen.append)
            assert list(target.tokens) == known[name].tolist()[1:]
            assert len(seen) == len(target.tokens)
            start = json.loads(str(known["config"]))["decoder_start_token_id"]
            assert runner.session.tokens() == (start, *target.tokens[:-1])
        assert len(target.others) == 3


def test_what_cannot_be_translated_is_one_sentence(tmp_path):
    with running(write_case(t5.FAMILY, "plain", tmp_path), exact("cpu", context=16)) as runner:
        translator = translator_of(runner)
        with pytest.raises(RequestError, match="beams: expected 1 to 16, found 17"):
            translator.options(17)
        with pytest.raises(RequestError, match="the source has 17 tokens, expected 1 to 16"):
            translator.translate([5] * 17, translator.options(1))
        assert translator.options(1).most_tokens == 15
        with pytest.raises(RequestError, match="is an encoder-decoder, which writes about a"):
            list(generate(runner.session, [1, 2], SamplingOptions(), frozenset()))


def test_one_beam_at_a_time_has_an_executor(tmp_path):
    """Of another width, it is closed: its memory is free again."""
    path = write_case(t5.FAMILY, "gated", tmp_path)
    with running(path, exact("cpu", context=16)) as runner:
        translator, counts, scores = translator_of(runner), [], []
        for width in (2, 4, 4, 2):
            target = translator.translate([5, 6, 7], translator.options(width, 5))
            counts.append(len(runner.executors))
            scores.append(target.score)
        assert counts == [3] * 4 and scores[0] == scores[3] and scores[1] == scores[2]
