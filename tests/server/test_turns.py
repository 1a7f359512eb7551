"""What is done for requests before they are answered: clients take turns, and may leave."""

import threading

import pytest
from starlette.requests import Request

from llm_lite.core.errors import CancelledError
from llm_lite.core.messages import Ended
from llm_lite.core.text.sandbox.process import give_up_when_cancelled
from llm_lite.core.turns import NOBODY, Client, client_here
from llm_lite.server import call, shared
from llm_lite.server.call import address_of, client_of
from llm_lite.server.failures import ApiError
from llm_lite.server.openai.running import check
from llm_lite.server.shared import TurnPool
from tests.children import PATIENCE
from tests.server import sockets
from tests.server.sockets import wait_until

USER = [{"role": "user", "content": "hello"}]


class Jobs:
    """Work that lasts until `go_on` is set."""

    def __init__(self, pool):
        self.pool, self.go_on = pool, threading.Event()
        self.begun = []

    def submit(self, client, name):
        def work():
            self.begun.append(name)
            assert self.go_on.wait(PATIENCE)
            return name

        return self.pool.submit(client, work)


@pytest.fixture
def pool():
    made = TurnPool("turns", 4, 2)
    yield made
    made.close()


def test_the_slow_jobs_of_one_client_leave_threads_for_others(pool):
    slow = Jobs(pool)
    waiting = [slow.submit("slow", number) for number in range(9)]
    assert pool.submit("other", lambda: "quick").result(PATIENCE) == "quick"
    wait_until(lambda: len(slow.begun) == 2)
    assert sorted(slow.begun) == [0, 1]
    slow.go_on.set()
    assert [one.result(PATIENCE) for one in waiting] == list(range(9))


def test_whoever_has_the_fewest_jobs_is_next(pool):
    jobs = Jobs(pool)
    for client in ("a", "a", "b", "b"):
        jobs.submit(client, client)
    wait_until(lambda: len(jobs.begun) == 4)
    last = [pool.submit(client, lambda c=client: order.append(c)) for client in "aabbccc"]
    order = []
    jobs.go_on.set()
    for one in last:
        one.result(PATIENCE)
    assert order[0] == "c", "it had none"


def test_work_that_nobody_waits_for_is_dropped(pool):
    jobs = Jobs(pool)
    running = [jobs.submit("a", number) for number in range(2)]
    dropped, kept = jobs.submit("a", "dropped"), jobs.submit("a", "kept")
    assert dropped.cancel()
    jobs.go_on.set()
    for one in (*running, kept):
        one.result(PATIENCE)
    assert "dropped" not in jobs.begun


def test_a_job_that_fails_fails_alone(pool):
    def fail():
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        pool.submit("a", fail).result(PATIENCE)
    assert pool.submit("a", lambda: 1).result(PATIENCE) == 1


def test_what_waits_in_the_end_is_dropped():
    pool = TurnPool("turns", 1, 1)
    jobs = Jobs(pool)
    jobs.submit("a", "runs")
    wait_until(lambda: jobs.begun)
    waits = jobs.submit("b", "waits")
    pool.close()
    assert waits.cancelled() and pool.submit("c", lambda: 1).cancelled()
    jobs.go_on.set()


class Slow:
    """Submitting requests of one program takes until `go_on` is set, or its client has left."""

    def __init__(self, service):
        self.begun, self.ended, self.go_on = [], [], threading.Event()
        self.submit, service.submit = service.submit, self

    def __call__(self, request, emit):
        if "slow" in request.client:
            self.begun.append(request)
            try:
                while not self.go_on.wait(0.01):
                    give_up_when_cancelled()
            except CancelledError:
                self.ended.append(request)
                raise
        return self.submit(request, emit)


def slow_request(**more):
    headers = ("User-Agent: slow", "Connection: close")
    return sockets.request("/v1/chat/completions", {"messages": USER, **more}, "POST", *headers)


def test_slow_requests_of_one_client_hold_up_nobody_else(serve):
    served = serve()
    slow = Slow(served.service)
    many = {count: sockets.connect(served) for count in range(1, shared._THREADS + 9)}
    for count, one in many.items():
        one.sendall(slow_request(max_tokens=count))
    wait_until(lambda: len(slow.begun) == shared._OF_A_CLIENT)
    made = served.client().chat.completions.create(model="scripted", messages=USER)
    assert made.choices[0].message.content == "You said: hello"
    assert len(slow.begun) == shared._OF_A_CLIENT, "the others wait for their turn"
    begun = {request.sampling.max_new_tokens for request in slow.begun}
    for count in sorted(many, key=begun.__contains__):  # those that wait leave first
        if count in begun:
            wait_until(lambda: served.server._shared.active.count == len(begun))
        many[count].close()
        if count in begun:
            begun.remove(count)
    wait_until(lambda: len(slow.ended) == shared._OF_A_CLIENT)
    again = sockets.connect(served)
    again.sendall(slow_request())
    wait_until(lambda: len(slow.begun) > shared._OF_A_CLIENT)
    assert len(slow.begun) == shared._OF_A_CLIENT + 1, "what waited was never begun"
    slow.go_on.set()
    assert b"hello" in sockets.read_all(again)
    again.close()
    assert len(served.service.requests) == 2


def test_a_request_that_is_at_fault_is_no_failure_of_the_server():
    for fault, status in ((True, 400), (False, 503)):
        with pytest.raises(ApiError, match="the grammar cannot go on") as error:
            check(Ended("the grammar cannot go on", at_fault=fault))
        assert error.value.status == status


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2::77", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
    ],
)
def test_of_ipv6_a_network_is_one_address(host, address):
    scope = {"type": "http", "client": (host, 1), "headers": [(b"user-agent", b"x y")]}
    request = Request(scope)
    assert address_of(request) == address
    assert Client.of(client_of(request)) == Client(address, "x y")


def test_names_of_one_address_leave_threads_for_another():
    pool = TurnPool("turns", 8, 2)
    jobs = Jobs(pool)
    for number in range(20):
        jobs.submit(f"worst {number}", number)
    wait_until(lambda: len(jobs.begun) == 6)
    assert pool.submit("small editor", lambda: "quick").result(PATIENCE) == "quick"
    assert len(jobs.begun) == 6
    jobs.go_on.set()
    pool.close()


def test_large_jobs_leave_threads_for_small_ones_and_take_turns_by_address():
    pool = TurnPool("turns", 16, 2)
    go_on, begun = threading.Event(), []

    def large(name):
        def work():
            begun.append(name)
            assert go_on.wait(PATIENCE)

        return pool.submit(name, work, is_large=True)

    for number in range(5):
        large(f"worst {number}")
    wait_until(lambda: len(begun) == 1)
    assert pool.submit("worst 9", lambda: "quick").result(PATIENCE) == "quick"
    done = large("small editor")
    wait_until(lambda: len(begun) == 2)
    assert begun == ["worst 0", "small editor"], "the last place is for another address"
    go_on.set()
    done.result(PATIENCE)
    pool.close()


def test_a_thread_of_the_pool_acts_for_its_client(pool):
    found = pool.submit("10.0.0.1 a b", client_here).result(PATIENCE)
    assert found == Client("10.0.0.1", "a b") and client_here() == NOBODY


def test_what_keeps_a_form_or_is_long_is_prepared_among_few(serve, monkeypatch):
    served = serve()
    seen = []
    submit = TurnPool.submit

    def noted(self, client, work, *, is_large=False):
        seen.append(is_large)
        return submit(self, client, work, is_large=is_large)

    monkeypatch.setattr(TurnPool, "submit", noted)
    ask = served.client().chat.completions.create
    ask(model="m", messages=USER)
    assert seen == [False]
    ask(model="m", messages=USER, response_format={"type": "json_object"})
    assert seen == [False, True]
    ask(model="m", messages=USER, extra_body={"more": "word " * (call.LARGE // 5)})
    assert seen == [False, True, True]
