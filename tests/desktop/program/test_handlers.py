"""Whatever a person does and whatever the engine says has a function of its own."""

import importlib
import pkgutil
from collections import Counter

import pytest

from llm_lite.core.messages import Event, TitleMade
from llm_lite.core.questions.table import QUESTIONS
from llm_lite.desktop import features
from llm_lite.desktop.features.attachments.model import ChooseAttachments
from llm_lite.desktop.features.cache.model import AskFreeMemory
from llm_lite.desktop.features.file_chooser.model import ChoosePath
from llm_lite.desktop.features.history.model import ChooseConversations
from llm_lite.desktop.features.host import Host
from llm_lite.desktop.features.library.model import ChooseImport
from llm_lite.desktop.features.program.act import ACTIONS
from llm_lite.desktop.features.program.action import Action, HostAction
from llm_lite.desktop.features.program.apply import EVENTS, REPLIES
from llm_lite.desktop.features.program.model import ChooseFile, OpenLink, ResetLayout, SaveText
from llm_lite.desktop.features.registry import FEATURES, joined

OF_THE_PROGRAM = {
    AskFreeMemory, ChooseAttachments, ChooseConversations, ChooseFile, ChooseImport, ChoosePath,
    OpenLink,
    SaveText,
}  # fmt: skip
OF_THE_INTERFACE = {ResetLayout}


def test_each_action_and_each_event_is_handled():
    assert set(ACTIONS) == set(Action.__subclasses__()) - {HostAction}
    unasked = {one.answer for one in QUESTIONS if one.request not in REPLIES}  # by any panel
    asked = {slot.answer_type for feature in FEATURES for slot in feature.asks}
    of_commands = set(Event.__subclasses__()) - set(EVENTS) - unasked - asked
    models = [importlib.import_module(reply.__module__) for reply in REPLIES.values()]
    handled = {id(value) for model in models for value in vars(model).values()}
    kept = [TitleMade]  # the history's host does
    assert [kind for kind in of_commands if id(kind) not in handled] == kept


def test_an_action_of_hosts_has_one_host():
    for info in pkgutil.walk_packages(features.__path__, f"{features.__name__}."):
        if info.name.rpartition(".")[2].startswith("host"):
            importlib.import_module(info.name)
    hosts = [host for host in Host.__subclasses__() if host.__module__.startswith("llm_lite.")]
    given = Counter(action for host in hosts for action in host.actions)
    assert max(given.values()) == 1
    alone = set(HostAction.__subclasses__())
    assert alone - set(given) == OF_THE_PROGRAM | OF_THE_INTERFACE


def test_a_name_is_of_one_feature():
    names = [feature.name for feature in FEATURES]
    assert len(names) == len(set(names))
    with pytest.raises(ValueError, match=r"two features handle .*int"):
        joined([{int: 1}, {str: 2}, {int: 3}])
