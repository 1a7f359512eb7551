"""The connection to IBus: what goes out, what comes back, and what a broken daemon does."""

import struct
import sys
import time

import pytest

from tests.children import PATIENCE

if sys.platform != "linux":
    pytest.skip("input methods by D-Bus are Linux's", allow_module_level=True)

from llm_lite.desktop.app.input_method.daemon import LONGEST_MESSAGE, Daemon
from llm_lite.desktop.app.input_method.messages import (
    Answered,
    Committed,
    Composed,
    Connected,
    Lost,
)
from tests.desktop.app.input_method.fake_ibus import CONTEXT, FakeIbus, commit, compose


@pytest.fixture
def ibus(tmp_path):
    one = FakeIbus(tmp_path)
    yield one
    one.close()


def wait_for(daemon, *kinds):
    """What was heard until there was one of each kind."""
    news, end = [], time.monotonic() + PATIENCE
    while not all(any(isinstance(one, kind) for one in news) for kind in kinds):
        news += daemon.take()
        assert time.monotonic() < end, news
        time.sleep(0.005)
    return news


@pytest.fixture
def daemon(ibus):
    woken = []
    one = Daemon(lambda: ibus.address, lambda: woken.append(1))
    wait_for(one, Connected)
    assert woken
    yield one
    one.close()


def test_it_makes_a_context_that_draws_compositions_itself(ibus, daemon):
    daemon.call("FocusIn")
    daemon.call("ProcessKeyEvent", "uuu", (97, 30, 0), 7)
    assert Answered(7, False) in wait_for(daemon, Answered)
    assert ibus.members() == [
        "Hello", "CreateInputContext", "SetCapabilities", "Set", "FocusIn", "ProcessKeyEvent",
    ]  # fmt: skip
    assert ibus.heard[2][1] == (1 | 8,)


def test_signals_come_before_the_answer_of_their_key(ibus, daemon):
    ibus.answer = lambda keyval, state: ([commit("안"), compose("ㄴ", 1)], True)
    daemon.call("ProcessKeyEvent", "uuu", (115, 31, 0), 1)
    news = wait_for(daemon, Answered)
    assert [type(one) for one in news] == [Committed, Composed, Answered]
    assert news[-1] == Answered(1, True)


def test_signals_of_another_context_are_not_heard(ibus, daemon):
    from jeepney import DBusAddress, new_signal

    other = DBusAddress("/other", interface=CONTEXT.interface)
    ibus.send(new_signal(other, "HidePreeditText"))
    ibus.send(commit("a"))
    assert wait_for(daemon, Committed) == [Committed("a")]


GARBAGE = {
    "no message": b"GET / HTTP/1.1\r\n\r\n",
    "too long": struct.pack("<cBBBIIII", b"l", 4, 0, 1, LONGEST_MESSAGE, 1, 8, 0),
    "longest": struct.pack("<cBBBIIII", b"l", 4, 0, 1, 2**32 - 1, 1, 2**32 - 1, 0),
    "zeros": b"l" + bytes(63),
    "half": commit("half of it").serialise(9)[:-4] + bytes(60),
    "no text": b"l\4\1\1\x04\0\0\0\1\0\0\0\x0f\0\0\0\x08\1g\0\1s\0\0\xff\xff\xff\xff" + bytes(40),
}


def endless():
    """A list of structs of nothing: they take no room, so that the list never ends."""
    from jeepney import new_signal

    whole = new_signal(CONTEXT, "CommitText", "v", (("au", [1, 2]),)).serialise(9)
    assert whole.count(b"\x02au\0") == 1
    return whole.replace(b"\x02au\0", b"\x03a()\0")


@pytest.mark.parametrize("data", [*GARBAGE.values(), endless()], ids=[*GARBAGE, "endless"])
def test_garbage_ends_the_connection_with_a_reason(ibus, daemon, data):
    ibus.send(data)
    lost = wait_for(daemon, Lost)[-1]
    assert lost.reason and len(lost.reason) <= 250


def test_an_empty_struct_in_a_text_is_only_text(ibus, daemon):
    ibus.send(commit("f()"))
    assert wait_for(daemon, Committed) == [Committed("f()")]


def test_a_daemon_that_dies_is_told(ibus, daemon):
    ibus.close()
    assert wait_for(daemon, Lost)[-1].reason
    daemon.call("FocusOut")  # nobody is there
    daemon.close()


def test_no_daemon_is_no_problem():
    one = Daemon(lambda: None, lambda: None)
    assert wait_for(one, Lost) == [Lost("")]


@pytest.mark.parametrize(
    "address", ["", "tcp:host=a,port=1", "nonsense", "unix:path=/nowhere/at/all"]
)
def test_an_address_that_leads_nowhere(address):
    one = Daemon(lambda: address, lambda: None)
    assert wait_for(one, Lost)[-1].reason


def test_calls_that_are_not_read_do_not_pile_up(ibus):
    one = Daemon(lambda: time.sleep(0.2), lambda: None)
    for _ in range(5000):
        one.call("SetCursorLocation", "iiii", (1, 2, 3, 4))
    assert len(one._calls) <= 1000
    one.close()
