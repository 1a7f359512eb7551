"""Schemas and grammars that cost more than they may end their own answers, and nothing else."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import numpy as np
import psutil
import pytest
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from llm_lite.core.errors import CancelledError, RequestError
from llm_lite.core.generation.grammars import grammar as grammars
from llm_lite.core.generation.grammars import matchers as hosts
from llm_lite.core.generation.grammars.forms import form_of, parser_limits
from llm_lite.core.generation.grammars.grammar import Grammar, check_grammar
from llm_lite.core.generation.grammars.matcher import ForcedTexts
from llm_lite.core.generation.grammars.matchers import Matchers, matchers
from llm_lite.core.loading import loader
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.processor import default_threads
from llm_lite.core.records import replace
from llm_lite.core.text.sandbox.process import cancelled_by
from llm_lite.core.text.tokenizer import Tokenizer
from llm_lite.core.turns import Client, Places, acting_for
from tests.children import PATIENCE
from tests.core.text.test_tokenizer import piece_metadata
from tests.make_gguf import tokenizer_metadata
from tests.paths import ROOT

TOKENIZER = Tokenizer.from_gguf(tokenizer_metadata(300), "tiny")
COSTLY = SamplingOptions(json_schema='{"type": "integer", "multipleOf": 99999989}')
HONEST = SamplingOptions(grammar='root ::= "a" | "b"')
# In the second place only one text can come: the tokens of that are asked for.
FORCED = SamplingOptions(grammar='root ::= ("a" | "b") "cde"')


def references(count):
    """A schema that refers to another one, and so on."""
    named = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(count)}
    named[f"d{count}"] = {"type": "integer"}
    return SamplingOptions(json_schema=json.dumps({"$ref": "#/$defs/d0", "$defs": named}))


def rules(count):
    lines = [f"r{i}: r{i + 1}" for i in range(count)]
    return SamplingOptions(grammar="\n".join(["start: r0", *lines, f'r{count}: "a"']))


@pytest.fixture
def limits(monkeypatch):
    """`limits(name=value, ...)`: those of matchers that are started from now on."""

    def change(**changes):
        monkeypatch.setattr(hosts, "LIMITS", replace(hosts.LIMITS, **changes))

    return change


@pytest.fixture
def host(monkeypatch):
    """Processes of this test alone, and none but those that its answers have."""
    made = Matchers()
    monkeypatch.setattr(made, "_start_spare", lambda tokenizer: None)
    for module in (grammars, hosts):
        monkeypatch.setattr(module, "matchers", lambda: made)
    yield made
    made.close()


def allowed(mask):
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


def token(text):
    (found,) = TOKENIZER.encode(text)
    return found


def is_fine():
    """Whether an honest grammar is followed."""
    one = Grammar(HONEST, TOKENIZER)
    try:
        return allowed(one.mask()) == {token("a"), token("b")}
    finally:
        one.close()


def children(host):
    """Processes of matchers that have not ended."""
    found = []
    for child in psutil.Process(host._server.pid).children():
        with suppress(psutil.NoSuchProcess):
            if child.status() != psutil.STATUS_ZOMBIE:
                found.append(child)
    return found


def wait_until(found):
    event = threading.Event()
    for _ in range(int(PATIENCE / 0.01)):
        if found():
            return
        event.wait(0.01)
    raise AssertionError("it did not happen")


@pytest.mark.parametrize("sampling", [references(1200), references(4000), rules(3000), rules(8000)])
def test_a_long_chain_of_references_is_followed(sampling):
    """The stack of a thread of the program would be too small for them."""
    check_grammar(sampling)
    one = Grammar(sampling, TOKENIZER)
    one.check()
    one.close()


@pytest.mark.parametrize("sampling", [references(4000), rules(8000)])
def test_references_that_lead_too_deep_are_a_sentence(sampling, limits):
    limits(stack_bytes=256 << 10)
    for refused in (Grammar(sampling, TOKENIZER).check, lambda: check_grammar(sampling)):
        with pytest.raises(RequestError, match=r"nested too deeply, or its references are: to "):
            refused()
    assert is_fine()


def test_processor_time_is_limited(limits):
    limits(compile_seconds=0.2)
    with pytest.raises(RequestError, match=r"the JSON schema is too costly: to compile it takes"):
        Grammar(COSTLY, TOKENIZER).check()
    assert is_fine()


def test_memory_is_limited(limits):
    limits(compile_seconds=PATIENCE, memory_bytes=64 << 20)
    with pytest.raises(RequestError, match="to compile it takes more than 64 MiB of memory"):
        Grammar(COSTLY, TOKENIZER).check()
    assert is_fine()


def test_a_matcher_has_the_limits_that_its_process_was_told(limits, host, monkeypatch):
    """Also where they change while the process starts, as between tests."""
    limits(compile_seconds=0.1, memory_bytes=4 << 30)
    host.start(TOKENIZER).close()  # from now on one message starts a matcher
    answer = host._answer

    def change():
        found = answer()
        limits(compile_seconds=PATIENCE)
        return found

    monkeypatch.setattr(host, "_answer", change)
    with pytest.raises(RequestError, match=r"more than 0\.1 s of processor time"):
        Grammar(COSTLY, TOKENIZER).check()


def test_who_waits_gives_up_when_the_answer_is_stopped(limits, host):
    limits(compile_seconds=PATIENCE, memory_bytes=4 << 30)
    one = Grammar(COSTLY, TOKENIZER)
    asked = []
    with pytest.raises(CancelledError), cancelled_by(lambda: asked.append(1) or len(asked) > 2):
        one.check()
    assert not one.is_ready(), "it computes still"
    assert children(host)
    one.close()
    wait_until(lambda: not children(host))


@pytest.fixture
def held(monkeypatch):
    """Tokens of a text that only can come are told when this is set."""
    told, tokens_of = threading.Event(), ForcedTexts.tokens

    def wait(*arguments):
        told.wait(PATIENCE)
        return tokens_of(*arguments)

    monkeypatch.setattr(ForcedTexts, "tokens", wait)
    yield told
    told.set()


def test_nobody_waits_for_the_mask_of_another(held):
    late = Grammar(FORCED, TOKENIZER)
    late.check()
    late.take(token("a"))
    late.prepare()
    for _ in range(3):
        assert is_fine()
        assert not late.is_ready()
    held.set()
    assert allowed(late.mask()) == {token("c")}
    late.close()


def test_what_must_come_next_begins_with_no_space_of_its_own():
    """SentencePiece puts one before a text, and this one goes on in the middle of an answer."""
    pieces = Tokenizer.from_gguf(piece_metadata(), "pieces")
    guided = Grammar(SamplingOptions(grammar='root ::= ("b" | "c") "abc"'), pieces)
    said = [pieces.tokens.index("b")]
    guided.take(said[0])
    while len(said) < 4 and (found := allowed(guided.mask())) != {pieces.eos_id}:
        assert len(found) == 1
        said += found
        guided.take(said[-1])
    guided.close()
    assert b"".join(map(pieces.token_bytes, said)) == b"babc"


def test_a_process_that_hangs_is_ended(host):
    late = Grammar(FORCED, TOKENIZER)
    late.check()
    (process,) = children(host)
    process.suspend()
    late.take(token("a"))
    late._matcher.limits = replace(hosts.LIMITS, wall_seconds=0.1)
    late.prepare()
    wait_until(late.is_ready)
    with pytest.raises(RequestError, match=r"to find what may come next takes more than 0\.1 s"):
        late.mask()
    assert not children(host)
    assert is_fine()


def test_a_grammar_beyond_the_library_s_limits_says_so():
    names = [f"r{i}" for i in range(1500)]
    text = "root ::= " + " | ".join(names) + "\n"
    text += "\n".join(f'{name} ::= "a" x{name}\nx{name} ::= "a{name}"' for name in names)
    one = Grammar(SamplingOptions(grammar=text), TOKENIZER)
    one.check()
    one.take(token("a"))
    with pytest.raises(RequestError, match=r"the grammar cannot go on: Current row has 1500 items"):
        one.mask()


def test_masks_are_those_of_the_library_in_one_process(smollm2):
    file = loader.open_model(str(smollm2), lambda *_: None, lambda text: None)
    try:
        tokenizer = file.tokenizer
        schema = {"const": "abc def ghi, jkl"}, {"enum": ["happy birthday", "happy new year"]}
        for text in map(json.dumps, schema):
            one = Grammar(SamplingOptions(json_schema=text), tokenizer)
            there = _in_process(tokenizer, text)
            for _ in range(20):
                mask = one.mask()
                expected = np.frombuffer(bytearray(there.compute_bitmask()), np.uint32)
                ends = allowed(mask) & tokenizer.end_ids
                assert bool(ends) == there.is_accepting()
                assert allowed(mask) - ends == allowed(expected) - tokenizer.end_ids
                if ends:
                    break
                chosen = max(allowed(mask) - ends)
                one.take(chosen)
                assert there.consume_token(chosen)
            assert ends, "all of it was said"
            one.close()
    finally:
        file.close()


class _Wrapped:
    def __init__(self, tokenizer):
        everything = range(tokenizer.vocab_size)
        self.eos_token_id, self.bos_token_id = min(tokenizer.end_ids), tokenizer.bos_id
        self.tokens = [tokenizer.token_bytes(t) for t in everything]
        self.special_token_ids = [t for t in everything if tokenizer.is_special(t)]
        self._tokenizer = tokenizer

    def __call__(self, text):
        if not isinstance(text, str):
            raise TypeError
        return self._tokenizer.encode(text, parse_special=False)


def _in_process(tokenizer, schema):
    table = LLTokenizer(TokenizerWrapper(_Wrapped(tokenizer)), eos_token=sorted(tokenizer.end_ids))
    form = form_of("JSON schema", schema)
    return LLMatcher(table, form, log_level=0, limits=parser_limits())


def test_few_answers_that_wait_keep_their_process(host):
    several = [Grammar(HONEST, TOKENIZER) for _ in range(12)]
    for one in several:
        one.check()
    wait_until(lambda: len(children(host)) == grammars._MOST_RESTING)
    for one in several:  # those without one are given another
        one.prepare()
        one.take(token("a"))
        assert allowed(one.mask()) == set(TOKENIZER.end_ids)
    assert len(children(host)) == len(several)
    for one in several:  # as their turn is over
        assert one.is_kept and not one.is_busy
        one.rest()
    wait_until(lambda: len(children(host)) == grammars._MOST_RESTING)
    assert [one.is_kept for one in several] == [False] * 4 + [True] * 8
    assert all(one.is_ready(PATIENCE) for one in several)
    for one in several:
        one.close()
    wait_until(lambda: not children(host))


def test_the_next_answer_finds_its_process_there():
    host = Matchers()
    first = host.start(TOKENIZER)
    wait_until(lambda: host._spare)
    spare = host._spare[1]
    second = host.start(TOKENIZER)
    assert second is spare
    wait_until(lambda: host._spare)
    spare = host._spare[1]
    for process in children(host):
        process.kill()
    wait_until(lambda: not children(host))
    assert host.start(TOKENIZER) is not spare, "its process has ended"
    for one in (first, second):
        one.close()
    host.close()


def test_a_grammar_that_is_dropped_ends_its_process(host):
    one = Grammar(HONEST, TOKENIZER)
    one.mask()
    assert len(children(host)) == 1
    del one
    wait_until(lambda: not children(host))


def test_another_server_process_is_started_where_one_has_ended(host):
    assert is_fine()
    host._server.kill()
    host._server.wait()
    assert is_fine()


def test_a_system_that_cannot_fork_has_the_same_masks(host, monkeypatch, limits):
    monkeypatch.setattr(hosts, "FORKS", False)
    for _ in range(2):
        assert is_fine()
    one = Grammar(SamplingOptions(grammar='root ::= "ab"'), TOKENIZER)
    one.check()
    one.take(token("a"))
    assert allowed(one.mask()) == {token("b")}
    one.close()
    check_grammar(HONEST)
    with pytest.raises(RequestError, match="broken"):
        check_grammar(SamplingOptions(grammar="root ::= ("))
    limits(compile_seconds=0.2)
    host.close()
    with pytest.raises(RequestError, match="more than"):
        Grammar(COSTLY, TOKENIZER).check()
    assert is_fine()


PROGRAM = """
import json, sys
from llm_lite.core.generation.grammars import matchers as hosts
from llm_lite.core.generation.grammars.grammar import Grammar
from llm_lite.core.records import replace
from tests.core.generation.test_matchers import COSTLY, HONEST, TOKENIZER, children
hosts.LIMITS = replace(hosts.LIMITS, compile_seconds=600.0, memory_bytes=2 << 30)
quiet, busy = Grammar(HONEST, TOKENIZER), Grammar(COSTLY, TOKENIZER)
quiet.check()
busy.prepare()
host = hosts.matchers()
print(json.dumps([host._server.pid, *(child.pid for child in children(host))]), flush=True)
sys.stdin.read()
"""


def test_all_processes_end_with_a_program_that_is_killed():
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        processes = json.loads(program.stdout.readline())
        assert len(processes) >= 3
        os.kill(program.pid, signal.SIGKILL)
    wait_until(lambda: not any(map(_is_there, processes)))


def _is_there(process):
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_the_matchers_of_the_program_are_of_one_server():
    assert matchers() is matchers()


def test_schemas_of_clients_are_compiled_in_turns_and_the_window_s_at_once(monkeypatch):
    places, compiled = Places(1), []
    monkeypatch.setattr(grammars, "compiled_at_once", places)
    schema = SamplingOptions(json_schema='{"type": "integer"}')

    def compile_for(name):
        with acting_for(Client.of(name)):
            check_grammar(schema)
            one = Grammar(schema, TOKENIZER)
            one.check()
            one.close()
            compiled.append(name)

    threads = []
    with places.taken(Client("other"), 0.01, lambda: None):
        for name in ("worst a", "worst b", "small x"):
            threads.append(threading.Thread(target=compile_for, args=(name,)))
            threads[-1].start()
            wait_until(lambda: places.waiting == len(threads))
        check_grammar(schema)
        one = Grammar(schema, TOKENIZER)
        one.check()
        one.close()
        assert compiled == [], "the window's came before"
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(compiled) == ["small x", "worst a", "worst b"]
    assert places.waiting == 0


def test_fewer_are_compiled_at_once_than_there_are_cores():
    assert grammars.compiled_at_once._free == max(1, default_threads() - 1)


@pytest.mark.skipif(not hosts.FORKS, reason="there the process is not the server's")
def test_one_that_takes_long_has_the_processor_after_others(host):
    one, other = Grammar(HONEST, TOKENIZER), Grammar(HONEST, TOKENIZER)
    one.check()
    other.check()
    [first, second] = sorted(children(host), key=lambda process: process.create_time())
    usual = second.nice()
    one._matcher.lower()
    assert (first.nice(), second.nice()) == (max(usual, 10), usual)
    assert allowed(one.mask()) == {token("a"), token("b")}
    one.close()
    other.close()
