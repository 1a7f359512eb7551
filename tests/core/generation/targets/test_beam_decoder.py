"""A beam's hypotheses in shared steps, beside transformers."""

from __future__ import annotations

import json

import pytest

from llm_lite.core.generation.beam_search import BeamDecoder
from tests.core.generation.targets.test_beam_search import options_of
from tests.fixtures.seq2seq import marian, t5
from tests.runners import BACKENDS
from tests.seq2seq_checks import running_pair, stored, write_case
from tests.seq2seq_families import BEAMS


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("family", "case"), [(t5.FAMILY, "gated"), (marian.FAMILY, "plain")])
def test_it_finds_what_transformers_finds(family, case, backend, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    known = stored(family.name, case)
    config, source = json.loads(str(known["config"])), known["source"].tolist()
    start = config["decoder_start_token_id"]
    with running_pair(write_case(family, case, tmp_path), backend, device, beam=4) as pair:
        pair.encoder.encode(source)
        pair.encoder.hand_to(pair.decoder)
        decoder = BeamDecoder(pair.decoder, len(source))
        for i, beam in enumerate(BEAMS):
            found = decoder.search(start, options_of(beam, config))
            assert [start, *found.best.tokens] == known[f"beam.{i}"].tolist(), beam
