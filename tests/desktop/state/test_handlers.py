"""Whatever a person does and whatever the engine says has a function of its own."""

from typing import get_args

from llm_lite.core.messages import Event
from llm_lite.desktop.features.program import apply
from llm_lite.desktop.features.program.act import _HANDLERS, Action


def test_each_action_and_each_event_is_handled():
    assert set(_HANDLERS) == set(get_args(Action))
    assert set(apply._HANDLERS) == set(get_args(Event))
