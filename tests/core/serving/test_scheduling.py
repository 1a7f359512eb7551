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
from llm_lite.core.serving import places
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


@pytest.fixture
def turn(monkeypatch):
    """The steps of a turn: a quarter of what they are, so that answers of several turns are over
    soon."""
    monkeypatch.setattr(places, "MANY_STEPS", places.MANY_STEPS // 4)
    return places.MANY_STEPS


class Timed(Asked):
    """Counts all events of all requests, so that their order is known."""

    clock = 0

    def __init__(self, service, **request):
        self.heard_at, self.tokens_at = {}, []
        super().__init__(service, **request)

    def hear(self, event):
        Timed.clock += 1
        self.heard_at.setdefault(type(event), Timed.clock)
        if isinstance(event, TokenDecoded):
            self.tokens_at.append(Timed.clock)
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
def test_a_small_chat_begins_beside_any_number_of_long_answers(
    client, served_model, hook, turn, address
):
    """Twelve names share two places, of an address that is the small chat's or another's. None of
    them loses a token, and nobody else begins before it."""
    client.load(served_model, exact())
    service = serve(client, parallel=2)
    long = replace(GREEDY, max_new_tokens=3 * turn)
    alone = [Asked(service, tokens=(5, 6, n), sampling=long).tokens() for n in range(12)]
    began = len(hook.steps)
    reached = hook.block_step(began + 6 * turn)
    worst = [
        Timed(service, tokens=(5, 6, n), sampling=long, client=f"10.0.0.1 {n}") for n in range(12)
    ]
    assert reached.wait(PATIENCE)
    small = Timed(service, tokens=(6, 7), sampling=SHORT, client=f"{address} small")
    before = sum(GenerationStarted in one.heard_at for one in worst)
    hook.heard = True
    small.finished()
    assert [one.tokens() for one in worst] == alone
    first = small.heard_at[TokenDecoded]
    late = [one for one in worst if one.heard_at[GenerationFinished] < first]
    assert not late, "it waits for no long answer's end"
    if address != "10.0.0.1":
        began_first = sum(one.heard_at[GenerationStarted] < first for one in worst)
        assert began_first <= before + 1, "nor for others of an address that has more"


def test_one_client_s_many_small_chats_leave_a_long_answer_of_another_its_half(
    client, served_model, turn
):
    """Each of them is new, but their client's others rest meanwhile."""
    client.load(served_model, exact())
    service = serve(client, parallel=1, most_waiting=64)
    said = replace(GREEDY, max_new_tokens=8 * turn)
    small = replace(GREEDY, max_new_tokens=2 * turn)
    long = Timed(service, tokens=(5, 6, 7), sampling=said, client="10.0.0.1 long")
    many = [
        Timed(service, tokens=(5, 8, n), sampling=small, client="10.0.0.2 many") for n in range(30)
    ]
    count = len(long.tokens())
    over = long.heard_at[GenerationFinished]
    [one.finished() for one in many]
    others = sum(at < over for one in many for at in one.tokens_at)
    assert count == 8 * turn and others <= 1.5 * count, others


@pytest.mark.parametrize("pages", [40, 5])
def test_long_answers_are_written_in_turns(client, served_model, turn, pages):
    """When the first is over the others have most of theirs, too, if the cache holds them all;
    else they are the same all the same."""
    client.load(served_model, exact())
    service = serve(client, parallel=2, cache_budget=pages * BYTES_A_PAGE)
    count = 6 * turn
    long = replace(GREEDY, max_new_tokens=count)
    prompts = [tuple(range(5 + n, 90 + n)) for n in range(6)]
    alone = [Asked(service, tokens=tokens, sampling=long).tokens() for tokens in prompts]
    six = [
        Timed(service, tokens=tokens, sampling=long, client=f"here {n}")
        for n, tokens in enumerate(prompts)
    ]
    assert [one.tokens() for one in six] == alone
    over = min(one.heard_at[GenerationFinished] for one in six)
    said = [sum(at < over for at in one.tokens_at) for one in six]
    assert pages == 5 or min(said) >= count // 2, said


class Answered(SimpleNamespace):
    """What of an answer decides about places."""

    def __init__(self, client, number, **more):
        given = {"computed": 0, "missing": 1, "left": 0, "said": 0, "reached": 0, "since": 0} | more
        is_reading = given["missing"] > 1
        paged = SimpleNamespace(
            computed=given["computed"],
            missing=given["missing"],
            tokens=(0,) * (given["computed"] + given["missing"]),
            unread=lambda pool: given["left"],
            is_reading=is_reading,
        )
        super().__init__(
            client=client,
            number=number,
            paged=paged,
            new_tokens=given["said"],
            reached=given["reached"],
            placed_at=given["since"],
            unread=None,
            is_kept=True,
        )


def turns_at(step):
    made = places.PlaceTurns()
    made.step = step
    return made


def test_an_answer_that_gave_its_place_up_gets_on_before_it_does_again():
    """Else others take the pages of a long prompt again and again before it is read."""
    turns = turns_at(1000)
    newcomer = Answered("here new", 9, left=20)
    long = Answered("here long", 1, computed=500, missing=600, since=10)
    other = Answered("here other", 2, computed=500, missing=1, said=90, since=50)
    assert turns.giver(newcomer, [long, other], None) is long, "it has had its place for longest"
    long.reached = 500 - places.SOME_STEPS + 1
    assert turns.giver(newcomer, [long, other], None) is other
    other.placed_at = 1000 - places.SOME_STEPS + 1
    assert turns.giver(newcomer, [long, other], None) is None


def test_the_client_that_had_the_most_gives_its_place_up():
    turns = turns_at(1000)
    running = [Answered(f"here {n}", n, computed=100, said=50) for n in range(3)]
    turns.note_tokens("here 1", 3000)
    assert turns.giver(Answered("here new", 9, left=20), running, None) is running[1]


def test_a_place_changes_hands_only_where_the_taker_has_no_more_of_them():
    turns = turns_at(1000)

    def giver(taker, *clients):
        running = [Answered(one, n, computed=100, said=50) for n, one in enumerate(clients)]
        found = turns.giver(Answered(taker, 9, left=20), running, None)
        return found and found.client

    assert giver("a new", "a x", "a y") == "a x"
    assert giver("a x", "a x", "a y") is None, "it would have both"
    assert giver("b x", "a x", "b y") == "b y", "within the address it has fewer"
    assert giver("b y", "a x", "b y") is None, "the address would have both"
    assert giver("c x", "a x", "b y") in ("a x", "b y")
    assert giver("b new", "a x", "a y", "b z") == "a x"


def test_a_client_with_an_answer_that_rests_waits_for_its_longer_turn():
    turns = turns_at(1000)
    writing = Answered("a x", 1, computed=100, said=50, since=1000 - places.SOME_STEPS)
    new = Answered("b x", 9, left=20)
    assert turns.giver(new, [writing], None) is writing
    assert turns.giver(new, [writing], None, {"b x"}) is None
    writing.placed_at = 1000 - places.MANY_STEPS
    assert turns.giver(new, [writing], None, {"b x"}) is writing


def test_what_is_long_takes_no_place_of_what_is_read():
    turns = turns_at(1000)
    reading = Answered("here reads", 1, computed=500, missing=600)
    writing = Answered("here writes", 2, computed=500, missing=1, said=90)
    long = Answered("here new", 9, left=5000, missing=5000)
    small = Answered("here other", 9, left=256, missing=256)
    assert turns.giver(long, [reading], None) is None
    assert turns.giver(small, [reading], None) is reading
    assert turns.giver(long, [reading, writing], None) is writing
    writing.placed_at = 1000 - places.MANY_STEPS + 1
    assert turns.giver(long, [reading, writing], None) is None


def test_what_goes_on_takes_a_place_only_while_the_cache_has_all_of_it():
    turns = turns_at(1000)
    writing = Answered("here writes", 2, computed=500, missing=1, said=90)
    kept = Answered("here kept", 1, missing=301, said=100, reached=300, left=1)
    lost = Answered("here lost", 1, missing=301, said=100, reached=300, left=173)
    assert turns.giver(kept, [writing], None) is writing
    assert turns.giver(lost, [writing], None) is None
    kept.is_kept = False
    assert turns.giver(kept, [writing], None) is None, "its grammar would be compiled again"
    kept.is_kept = True
    turns.note_tokens("here kept", 3000)
    assert turns.giver(kept, [writing], None) is None, "its client had more than the other"


def test_what_a_client_had_counts_less_the_longer_it_waits():
    turns = turns_at(1000)
    turns.note_tokens("here much", 600)
    much, new = Answered("here much", 1, left=20, since=1000), Answered("here new", 2, left=20)
    assert turns.in_order([much, new], [], None)[0] is new
    much.placed_at = 1000 - 2 * places.SOME_STEPS
    assert turns.in_order([much, new], [], None)[0] is much
    much.unread = 300
    much.placed_at = 0
    assert turns.in_order([much, new], [], None)[0] is new, "what is long stays so"


def test_every_second_free_place_is_the_oldest_s_that_has_waited_long():
    turns = turns_at(1000)
    old, new = Answered("here old", 1, left=5000), Answered("here new", 2, left=10)
    first = turns.next_free([old, new], [], None)
    turns.begin(first, is_free=True)
    assert first is new and turns.next_free([old, new], [], None) is old
    old.placed_at = 1000 - places._LONG_WAIT + 1
    assert turns.next_free([old, new], [], None) is new
    elsewhere = Answered("there x", 3, left=5000)
    assert turns.next_free([old, new, elsewhere], [Answered("here x", 4)], None) is elsewhere
    assert turns.next_free([], [], None) is None


def test_turns_of_who_has_left_are_forgotten():
    turns = turns_at(1)
    for client in ("a x", "a y", "b x"):
        turns.begin(Answered(client, 1), is_free=False)
    turns.forget("a x", ["a y", "b x"])
    turns.forget("b x", ["a y"])
    assert sorted(turns._turns) == ["a", "a y"]


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
