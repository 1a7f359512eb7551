"""The lens is refused where the cache has lost what the token saw."""

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import Inspect
from llm_lite.core.records import replace
from tests.asking import asked
from tests.make_huggingface import write_tiny_gemma3n
from tests.runners import exact, running


def test_a_ring_that_has_lost_keys_refuses_earlier_tokens(tmp_path):
    folder = write_tiny_gemma3n(tmp_path, max_position_embeddings=512)
    tokens = list(range(200))
    options = exact("cpu", context=512, speculate="off")  # drafts take rows of a ring
    with (
        running(folder, options, every_output=True) as runner,  # of smaller steps and rings
        running(folder, replace(options, whole_caches=True)) as whole,
    ):
        for one in (runner, whole):
            one.session.prefill(tokens)
        oldest = max(runner.session.cache.oldest_rows())
        first = oldest + max(layer.window for layer in runner.attention.layers) - 1
        mine, other = (asked(Inspect(first), one).rows for one in (runner, whole))
        for row, known in zip(mine, other, strict=True):
            assert [one.token for one in row.tokens] == [one.token for one in known.tokens]
            chances = [[one.probability for one in best.tokens] for best in (row, known)]
            assert np.allclose(*chances, atol=1e-4)
        with pytest.raises(RequestError, match=f"no longer holds what token {first - 1} saw"):
            asked(Inspect(first - 1), runner)
        assert asked(Inspect(first - 1), whole).rows
