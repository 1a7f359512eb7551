"""Whose turn it is: clients in turns, the oldest first, and pages that are not enough for all."""

import threading
from types import SimpleNamespace

import pytest

from llm_lite.core.messages import (
    GenerationFinished,
    GenerationStarted,
    SamplingOptions,
    TokenDecoded,
)
from llm_lite.core.records import replace
from llm_lite.core.serving import scheduler
from tests.children import PATIENCE
from tests.core.serving.clients import GREEDY, Asked, serve
from tests.runners import exact
from tests.tiers import thorough

SHORT = SamplingOptions(temperature=0.0, max_new_tokens=3)
LONG = SamplingOptions(temperature=0.0, max_new_tokens=300)
LONG_SAID = SamplingOptions(temperature=0.0, max_new_tokens=90)
BYTES_A_PAGE = 128 * (2 * 2 * 2 * 16 * 4 + 2 * 4 * 16 * 4)  # keys, values and queries, float32


def order(*several):
    """The requests in the order in which they began."""
    began = []
    for asked in several:
        asked.finished()
        began.append((asked.heard_at[GenerationStarted], asked))
    return [asked for _, asked in sorted(began, key=lambda pair: pair[0])]


class Timed(Asked):
    """Counts all events of all requests, so that their order is known."""

    clock = 0

    def __init__(self, service, **request):
        self.heard_at = {}
        super().__init__(service, **request)

    def hear(self, event):
        Timed.clock += 1
        self.heard_at.setdefault(type(event), Timed.clock)
        super().hear(event)


def test_clients_take_turns(client, served_model, hook):
    client.load(served_model, exact())
    service = serve(client, parallel=1)
    reached = hook.block_step(len(hook.steps) + 1)
    first = Timed(service, tokens=(5, 6), sampling=SHORT, client="many")
    assert reached.wait(PATIENCE)
    many = [Timed(service, tokens=(5, n), sampling=SHORT, client="many") for n in range(4)]
    few = [Timed(service, tokens=(6, n), sampling=SHORT, client="few") for n in range(2)]
    hook.heard = True
    expected = [first, few[0], many[0], few[1], many[1], many[2], many[3]]
    assert order(first, *many, *few) == expected


def test_a_place_goes_to_the_client_that_has_the_fewest(client, served_model, hook):
    client.load(served_model, exact())
    service = serve(client, parallel=2)
    reached = hook.block_step(len(hook.steps) + 1)
    long = Timed(service, tokens=(5, 6), sampling=GREEDY, client="many")
    assert reached.wait(PATIENCE)
    many = [Timed(service, tokens=(5, n), sampling=SHORT, client="many") for n in range(3)]
    few = [Timed(service, tokens=(6, n), sampling=SHORT, client="few") for n in range(2)]
    hook.heard = True
    found = order(long, *many, *few)
    assert found[1:3] == few, "one place each, as long as both want one"


def test_a_short_prompt_does_not_wait_for_a_long_one(client, served_model, hook):
    client.load(served_model, exact())
    service = serve(client, parallel=2)
    reached = hook.block_step(len(hook.steps) + 1)
    long = Timed(service, tokens=tuple(range(5, 290)) + (5,) * 200, sampling=SHORT)
    assert reached.wait(PATIENCE)
    short = Timed(service, tokens=(6, 7, 8), sampling=SHORT)
    hook.heard = True
    long.finished(), short.finished()
    assert short.heard_at[TokenDecoded] < long.heard_at[TokenDecoded]


def test_a_step_takes_no_more_than_a_page_of_prompts(client, served_model, hook):
    client.load(served_model, exact())
    service = serve(client, parallel=4)
    prompts = [tuple(range(5 + n, 255)) for n in range(4)]
    for asked in [Asked(service, tokens=tokens) for tokens in prompts]:
        asked.finished()
    assert max(step.count for step in hook.steps) <= 128 + 4
    for step in hook.steps:
        for segment in step.segments:
            whole = segment.kv_length % 128 == 0 or segment.outputs
            assert whole, "a chunk ends at the end of a page or of the prompt"
    mixed = [step for step in hook.steps if {s.count for s in step.segments} > {1}]
    assert mixed, "prompts are read while others decode"


def test_cancel(client, served_model, hook):
    client.load(served_model, exact())
    service = serve(client, parallel=1)
    reached = hook.block_step(len(hook.steps) + 3)
    running = Asked(service, tokens=(5, 6), sampling=LONG)
    waiting = Asked(service, tokens=(5, 7), sampling=LONG)
    last = Asked(service, tokens=(5, 8), sampling=SHORT)
    assert reached.wait(PATIENCE)
    running.handle.cancel()
    waiting.handle.cancel()
    service.cancel(999)
    hook.heard = True
    assert running.finished().stop_reason == "stopped"
    assert 1 <= running.finished().stats.new_tokens <= 3
    assert waiting.finished().stop_reason == "stopped"
    assert waiting.finished().stats.new_tokens == 0
    assert last.finished().stop_reason == "length"
    status = service.status()
    assert (status.cancelled, status.finished, status.pages_used) == (2, 1, 0)


def test_a_listener_that_fails_ends_its_own_answer(client, served_model):
    client.load(served_model, exact())
    service = serve(client, parallel=2)

    class Deaf(Asked):
        def hear(self, event):
            super().hear(event)
            if isinstance(event, TokenDecoded):
                raise RuntimeError("gone")

    deaf, other = Deaf(service, tokens=(5, 6)), Asked(service, tokens=(5, 7))
    assert len(other.tokens()) == 12
    assert "RuntimeError" in deaf.end().problem
    assert service.status().failed == 1


@pytest.mark.parametrize(
    ("backend", "pages"), [("cpu", 4), ("vulkan", 4), thorough("numpy", 4), ("numpy", 5)]
)
def test_where_pages_are_not_enough_the_youngest_waits(
    client, device, served_model, backend, pages
):
    client.engine.device_lost(device)
    client.load(served_model, exact(backend))
    prompts = [tuple(range(5 + n, 120 + n)) for n in range(4)]
    service = serve(client, parallel=4)
    alone = [Asked(service, tokens=tokens, sampling=LONG).tokens() for tokens in prompts]
    service = serve(client, parallel=4, cache_budget=pages * BYTES_A_PAGE)
    assert service.status().pages == pages
    together = [Asked(service, tokens=tokens, sampling=LONG) for tokens in prompts]
    assert [asked.tokens() for asked in together] == alone
    status = service.status()
    assert (status.finished, status.pages_used) == (4, 0)
    assert status.new_tokens == sum(map(len, alone))


def test_hundreds_of_requests_from_many_threads(client, served_model):
    client.load(served_model, exact())
    service = serve(client, parallel=4, cache_budget=8 * BYTES_A_PAGE, most_waiting=1000)
    results = {}

    def work(name):
        for number in range(25):
            tokens = tuple(range(5 + number % 5, 5 + number % 5 + 1 + 11 * number))
            asked = Asked(service, tokens=tokens, sampling=SHORT, client=name)
            if number % 7 == 3:
                asked.handle.cancel()
            results[name, number] = asked.finished()

    threads = [threading.Thread(target=work, args=(f"client {n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(results) == 200
    assert {f.stop_reason for f in results.values()} <= {"length", "end", "stopped"}
    status = service.status()
    assert status.finished + status.cancelled == 200
    assert (status.failed, status.pages_used, status.requests) == (0, 0, ())
    for number in range(25):  # the same whoever asked, and whatever was beside it
        told = {
            (f.stop_reason, f.stats.new_tokens)
            for (_, n), f in results.items()
            if n == number and f.stop_reason != "stopped"
        }
        assert len(told) <= 1


def test_names_within_an_address_bring_no_more_places(client, served_model, hook):
    client.load(served_model, exact())
    service = serve(client, parallel=1)
    reached = hook.block_step(len(hook.steps) + 1)
    first = Timed(service, tokens=(5, 6), sampling=SHORT, client="10.0.0.1 n")
    assert reached.wait(PATIENCE)
    worst = [
        Timed(service, tokens=(5, n), sampling=SHORT, client=f"10.0.0.1 {n}") for n in range(6)
    ]
    small = [Timed(service, tokens=(6, n), sampling=SHORT, client="10.0.0.2 x") for n in range(2)]
    hook.heard = True
    expected = [first, small[0], worst[0], small[1], *worst[1:]]
    assert order(first, *worst, *small) == expected


@pytest.mark.parametrize("newcomer", ["10.0.0.2 editor", "10.0.0.1 editor"])
def test_whoever_has_all_places_gives_one_up(client, served_model, hook, newcomer):
    """The small chat is answered beside three that would not end for long, and none of these loses
    a token."""
    long = replace(GREEDY, max_new_tokens=40)
    alone = []
    client.load(served_model, exact())
    service = serve(client, parallel=3)
    for number in range(3):
        alone.append(Asked(service, tokens=(5, 6, number), sampling=long).tokens())
    reached = hook.block_step(len(hook.steps) + 6)
    worst = [
        Timed(service, tokens=(5, 6, n), sampling=long, client="10.0.0.1 many") for n in range(3)
    ]
    assert reached.wait(PATIENCE)
    small = Timed(service, tokens=(6, 7), sampling=SHORT, client=newcomer)
    hook.heard = True
    small.finished()
    assert [one.tokens() for one in worst] == alone
    ends = [one.heard_at[GenerationFinished] for one in (small, *worst)]
    assert ends[0] == min(ends)


@pytest.mark.parametrize("address", ["10.0.0.1", "10.0.0.9"])
def test_of_others_the_one_that_has_had_its_place_for_long_gives_it_up(
    client, served_model, hook, address
):
    """Two names with a place each; what has said something already waits for its turn."""
    client.load(served_model, exact())
    service = serve(client, parallel=2)
    few = replace(GREEDY, max_new_tokens=scheduler._MANY_STEPS - 9)
    alone = [Asked(service, tokens=(5, 6, n), sampling=LONG_SAID).tokens() for n in range(2)]
    reached = hook.block_step(len(hook.steps) + 6)
    two = [
        Timed(service, tokens=(5, 6, n), sampling=LONG_SAID, client=f"10.0.0.1 {n}")
        for n in range(2)
    ]
    assert reached.wait(PATIENCE)
    small = Timed(service, tokens=(6, 7), sampling=few, client=f"{address} small")
    hook.heard = True
    small.finished()
    assert [one.tokens() for one in two] == alone
    assert small.heard_at[GenerationFinished] < min(one.heard_at[GenerationFinished] for one in two)


def test_an_answer_that_gave_its_place_up_keeps_the_next_one():
    """Else others take the pages of a long prompt again and again before it is read."""
    turns = scheduler.Scheduler(parallel=2, most_waiting=9)
    paged = SimpleNamespace(missing=500)
    long, other, newcomer = (
        SimpleNamespace(number=n, client=f"10.0.0.{n} x", placed_at=n, new_tokens=(), paged=paged)
        for n in range(3)
    )
    turns.running, turns._step = [long, other], 10 * scheduler._MANY_STEPS
    long.given_up = other.given_up = False
    assert turns._giver(newcomer) is long
    long.given_up = True
    assert turns._giver(newcomer) is other
    other.given_up = True
    assert turns._giver(newcomer) is None


def test_of_an_address_whoever_had_and_wants_little_is_next(client, served_model, hook):
    client.load(served_model, exact())
    service = serve(client, parallel=1)
    often = [Asked(service, tokens=(5, n) * 90, client="10.0.0.1 often") for n in range(6)]
    [one.finished() for one in often]
    reached = hook.block_step(len(hook.steps) + 1)
    first = Timed(service, tokens=(5, 6), sampling=SHORT, client="10.0.0.1 first")
    assert reached.wait(PATIENCE)
    asked = [
        Timed(service, tokens=tokens, sampling=SHORT, client=f"10.0.0.1 {name}")
        for name, tokens in (("often", (7, 8)), ("long", (7, 9) * 150), ("small", (7, 10)))
    ]
    hook.heard = True
    assert order(first, *asked)[:2] == [first, asked[2]]


def test_one_client_s_own_answers_wait_for_each_other(client, served_model, hook):
    client.load(served_model, exact())
    service = serve(client, parallel=1)
    reached = hook.block_step(len(hook.steps) + 6)
    first = Timed(service, tokens=(5, 6), sampling=LONG_SAID, client="10.0.0.1 x")
    assert reached.wait(PATIENCE)
    second = Timed(service, tokens=(6, 7), sampling=SHORT, client="10.0.0.1 x")
    hook.heard = True
    assert order(first, second) == [first, second]
    assert second.heard_at[GenerationStarted] > first.heard_at[GenerationFinished]


def test_who_has_few_places_gives_none_up(client, served_model, hook):
    client.load(served_model, exact())
    service = serve(client, parallel=2)
    reached = hook.block_step(len(hook.steps) + 6)
    two = [Timed(service, tokens=(5, n), client=f"10.0.0.{n} x") for n in range(2)]
    assert reached.wait(PATIENCE)
    third = Timed(service, tokens=(6, 7), sampling=SHORT, client="10.0.0.3 x")
    hook.heard = True
    third.finished()
    assert third.heard_at[TokenDecoded] > min(one.heard_at[GenerationFinished] for one in two)
    [one.finished() for one in two]
