"""Recurrent states are read between answers, and never hold one up."""

import numpy as np

from llm_lite.core.messages import ChatMessage, ReadStates, SamplingOptions, StatesRead
from llm_lite.core.questions.states import _Reading
from tests.core.engine_client import PATIENCE
from tests.runners import exact

SAMPLING = SamplingOptions(temperature=0.0, max_new_tokens=40)


def test_states_of_an_answer(client, recurrent_folder):
    client.load(recurrent_folder, exact("cpu"))
    client.ask((ChatMessage("user", "Why is the sky blue?"),), SAMPLING)
    found = client.send(ReadStates(0, 1)).result(PATIENCE)
    assert isinstance(found, StatesRead)
    whole = np.sum(found.shares, axis=1) + found.of_start
    assert np.abs(whole - 1).max() <= 1e-3


def test_an_answer_does_not_wait_for_them(client, recurrent_folder, monkeypatch):
    """Asked for while it is written, they are read once it is."""
    steps, order = [], []
    client.load(recurrent_folder, exact("cpu"))
    client.ask((ChatMessage("user", "Hello " * 40),), SAMPLING)
    run = _Reading.run_part
    monkeypatch.setattr(
        _Reading, "run_part", lambda self, *part: (order.append("read"), run(self, *part))
    )
    runner = client.engine._host.runner
    decode = runner.session.decode

    def decoded(*arguments):
        if not steps:
            steps.append(client.send(ReadStates(0, 1)))
        order.append("decode")
        return decode(*arguments)

    monkeypatch.setattr(runner.session, "decode", decoded)
    client.ask((ChatMessage("user", "Why is the sky blue?"),), SAMPLING)
    assert isinstance(steps[0].result(PATIENCE), StatesRead)
    assert order.count("decode") > 5 and "read" in order
    assert "read" not in order[: len(order) - order[::-1].index("decode")]
