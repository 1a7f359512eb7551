"""Whatever a person does and whatever the engine says has a function of its own."""

from typing import get_args

import pytest

from llm_lite.core.messages import Event
from llm_lite.desktop.features.program.act import ACTIONS
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.apply import EVENTS
from llm_lite.desktop.features.registry import FEATURES, joined


def test_each_action_and_each_event_is_handled():
    assert set(ACTIONS) == set(Action.__subclasses__())
    assert set(EVENTS) == set(get_args(Event))


def test_a_name_is_of_one_feature():
    names = [feature.name for feature in FEATURES]
    assert len(names) == len(set(names))
    with pytest.raises(ValueError, match=r"two features handle .*int"):
        joined([{int: 1}, {str: 2}, {int: 3}])
