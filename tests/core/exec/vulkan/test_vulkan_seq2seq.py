"""Encoder-decoders on the software driver beside transformers: logits, beams in shared steps."""

from __future__ import annotations

import json

import pytest

from llm_lite.core.generation.targets.beam_decoder import BeamDecoder
from tests.core.generation.test_beam_search import options_of
from tests.fixtures.seq2seq import marian, t5
from tests.seq2seq_checks import check_logits, running_pair, stored, write_case
from tests.seq2seq_families import BEAMS

pytestmark = pytest.mark.vulkan

CASES = [(f, case) for f in (t5.FAMILY, marian.FAMILY) for case in f.cases]


@pytest.mark.parametrize(("family", "case"), [c for c in CASES if c[1] != "gelu"])  # odd heads
def test_logits(family, case, tmp_path, device):
    check_logits(family, case, "vulkan", tmp_path, device)


@pytest.mark.parametrize(("family", "case"), [(t5.FAMILY, "gated"), (marian.FAMILY, "plain")])
def test_beams(family, case, tmp_path, device):
    known = stored(family.name, case)
    config, source = json.loads(str(known["config"])), known["source"].tolist()
    start, path = config["decoder_start_token_id"], write_case(family, case, tmp_path)
    with running_pair(path, "vulkan", device, beam=4) as pair:
        pair.encoder.encode(source)
        pair.encoder.hand_to(pair.decoder)
        decoder = BeamDecoder(pair.decoder, len(source))
        for i, beam in enumerate(BEAMS):
            found = decoder.search(start, options_of(beam, config))
            assert [start, *found.best.tokens] == known[f"beam.{i}"].tolist(), beam
