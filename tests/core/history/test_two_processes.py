"""Two processes and several threads on one file: no lock is in anybody's way, nothing is lost."""

import json
import subprocess
import sys
import threading
import time

from llm_lite.core.history import (
    ConversationTree,
    History,
    HistoryChangedElsewhere,
    HistoryRefused,
    HistoryUnsaved,
)
from llm_lite.core.history.database import writer
from tests.children import PATIENCE
from tests.core.history.talks import RUN, add_talk, told
from tests.paths import ROOT

WRITER = """
import json, sys
from pathlib import Path
from llm_lite.core.history import History, HistoryRefused, HistoryUnsaved
from llm_lite.core.history.database import writer
from tests.core.history.talks import RUN, add_talk
history = History(Path(sys.argv[1]))
name, words = sys.argv[2], "words " * 200
talks = [add_talk(history, f"{name} {n}?", words, "More?", "Yes") for n in range(60)]
shared = int(sys.argv[3])
for number in range(20):
    answer = history.begin_answer(shared, None, RUN)
    history.finish_answer(answer, f"{name} {number}")
    history.flush(1200)
assert history.flush(1200)
wrong = [str(event) for event in history.poll()
         if isinstance(event, HistoryUnsaved | HistoryRefused)]
assert history.close(60)
print(json.dumps([talks, wrong]))
"""


def test_two_processes_write_at_once(history):
    shared = add_talk(history, "Shared")
    assert history.flush()
    command = [sys.executable, "-c", WRITER, str(history.path)]
    children = [
        subprocess.Popen([*command, name, str(shared)], cwd=ROOT, stdout=subprocess.PIPE)
        for name in ("one", "two")
    ]
    own = [add_talk(history, f"own {number}?", "words " * 200) for number in range(60)]
    attachment_text = [json.loads(child.communicate(timeout=PATIENCE)[0]) for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert [wrong for _, wrong in attachment_text] == [[], []]
    assert history.flush(PATIENCE)
    assert not any(isinstance(e, HistoryUnsaved | HistoryRefused) for e in history.poll())
    expected = {shared, *own, *attachment_text[0][0], *attachment_text[1][0]}
    assert len(expected) == 181 and set(history.all_ids()) == expected
    for talk in attachment_text[0][0]:
        whole = history.conversation(talk)
        assert [m.text for m in ConversationTree.of(whole).path][1:] == [
            "words " * 200,
            "More?",
            "Yes",
        ]
    assert len(history.conversation(shared).messages) == 41
    assert history.check() == ""


def test_changes_of_another_process_are_noticed(history, monkeypatch):
    monkeypatch.setattr(writer, "LOOK", 0.02)
    talk = add_talk(history, "One?")
    assert history.flush()
    history.poll()
    other = History(history.path)
    assert other.wait_until_open()
    other.set_title(talk, "By another")
    assert other.flush()
    told(history, HistoryChangedElsewhere)
    assert history.summary(talk).title == "By another"
    history.set_title(talk, "By us")
    assert history.flush()
    told(other, HistoryChangedElsewhere)
    looked = history._writer._looked_at
    while history._writer._looked_at < looked + 0.1:
        time.sleep(0.01)
    news = history.poll()  # what we change ourselves is none
    assert not any(isinstance(event, HistoryChangedElsewhere) for event in news)
    assert other.close()


def test_threads_read_while_one_writes(history):
    talk = add_talk(history, "One?")
    answer = history.begin_answer(talk, None, RUN)
    problems: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        try:
            last = 0
            while not stop.is_set():
                history.page()
                history.search("word")
                length = len(history.conversation(talk).messages[-1].text)
                assert length >= last
                last = length
        except BaseException as error:
            problems.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(150):
        history.write_answer(answer, "word " * number)
        add_talk(history, f"{number}?")
        time.sleep(0.002)
    assert history.flush(PATIENCE)
    stop.set()
    for reader in readers:
        reader.join()
    assert problems == []
    assert len(history.all_ids()) == 151
