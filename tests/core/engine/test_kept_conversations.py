"""A conversation's cache goes to a file beside other work, and comes back where it is of use."""

import numpy as np
import pytest

from llm_lite.core.engine import kept_conversations
from llm_lite.core.engine.hosting import cache_transfer
from llm_lite.core.errors import FileError, RequestError
from llm_lite.core.kv_cache import on_disk
from llm_lite.core.messages import (
    CacheKept,
    CacheStatus,
    ChatMessage,
    CheckKept,
    ConversationRead,
    Inspect,
    KeepConversation,
    KeptChecked,
    KeptResumed,
    Logged,
    Read,
    ReadAttentionRows,
    ResumeKept,
)
from tests.core.engine_client import PATIENCE, Client
from tests.make_gguf import write_tiny_llama
from tests.runners import exact

HELLO = (ChatMessage("user", "Hello there, what do you know of the sea and of ships?"),)
PLENTY = 1 << 30


class Kept:
    """A conversation of two messages, in the cache of an engine and in a file."""

    def __init__(self, model, path):
        self.model, self.path = model, path
        self.client = Client()
        self.client.load(model, exact(context=0))
        _, tokens = self.client.ask(HELLO)
        self.messages = (*HELLO, ChatMessage("assistant", "", tuple(tokens)))
        self.kept = self.keep()

    def keep(self, most=PLENTY):
        return self.client.result(KeepConversation(7, str(self.path), most))

    def again(self, model=None, **options):
        """The program begins anew."""
        self.close()
        self.client = Client()
        self.client.load(model or self.model, exact(**{"context": 0, **options}))

    def check(self, messages=None):
        self.client.send(CheckKept(7, str(self.path), messages or self.messages))
        return self.client.until(KeptChecked)

    def resume(self, messages=None):
        self.client.send(ResumeKept(7, str(self.path), messages or self.messages))
        return self.client.until(KeptResumed)

    def next(self):
        """The answer to one more question, and how much of it was in the cache."""
        more = (*self.messages, ChatMessage("user", "And then?"))
        finished, tokens = self.client.ask(more, conversation=7)
        return tokens, finished.stats

    def close(self):
        assert self.client.engine.close(PATIENCE)


@pytest.fixture
def kept(tiny_llama, tmp_path):
    one = Kept(tiny_llama, tmp_path / "caches" / "7.kv")
    yield one
    one.close()


@pytest.fixture
def recurrent(recurrent_folder, tmp_path):
    """The conversation with a model that has recurrent states."""
    one = Kept(recurrent_folder, tmp_path / "caches" / "7.kv")
    yield one
    one.close()


def test_what_was_kept_is_not_read_again(kept):
    assert kept.kept.bytes == kept.path.stat().st_size
    expected, before = kept.next()
    kept.again()
    checked = kept.check()
    assert (checked.unfit, checked.tokens) == ("", kept.kept.tokens)
    assert checked.tokens <= checked.total
    resumed = kept.resume()
    assert (resumed.unfit, len(resumed.prompt)) == ("", checked.tokens)
    assert {token.message for token in resumed.prompt} == {-1, 0, 1}
    assert kept.client.until(CacheStatus).length == checked.tokens
    tokens, stats = kept.next()
    assert tokens == expected and stats.reused_tokens == checked.tokens == before.reused_tokens
    assert kept.client.engine._host.runner.session.copy_prefix().conversation == 7


def test_recurrent_states_are_kept_with_it(recurrent):
    expected, before = recurrent.next()
    recurrent.again()
    checked = recurrent.check()
    assert (checked.unfit, checked.tokens) == ("", recurrent.kept.tokens)
    resumed = recurrent.resume()
    assert (resumed.unfit, len(resumed.prompt)) == ("", checked.tokens)
    tokens, stats = recurrent.next()
    assert tokens == expected and stats.reused_tokens == checked.tokens == before.reused_tokens


def test_a_recurrent_conversation_goes_on_from_the_last_state_before_a_change(recurrent):
    """Another answer to the same question: all of the prompt is there again."""
    prompt = recurrent.client.ask(HELLO)[0].stats.prompt_tokens
    other = (*HELLO, ChatMessage("assistant", "No."))
    recurrent.again()
    checked = recurrent.check(other)
    assert (checked.unfit, checked.tokens) == ("", prompt) and prompt < recurrent.kept.tokens
    resumed = recurrent.resume(other)
    assert (resumed.unfit, len(resumed.prompt)) == ("", prompt)
    assert recurrent.client.until(CacheStatus).length == prompt
    shorter = (ChatMessage("user", HELLO[0].content[:30]),)
    assert recurrent.check(shorter).unfit == "beginning", "no state is held there"
    assert recurrent.resume(shorter).unfit == "beginning"
    assert recurrent.client.until(CacheStatus).length == 0


def test_recurrent_states_count_in_the_budget(recurrent):
    session = recurrent.client.engine._host.runner.session
    rows = session.cache.position_bytes * session.context_used
    assert recurrent.kept.bytes > rows + session.cache.states.nbytes
    recurrent.next()
    recurrent.client.send(KeepConversation(7, str(recurrent.path), rows + 1000))
    while "more than all of them may" not in recurrent.client.until(Logged).text:
        pass


def test_damage_of_a_recurrent_state_is_told(recurrent):
    recurrent.again()
    data = bytearray(recurrent.path.read_bytes())
    data[-40] ^= 1
    recurrent.path.write_bytes(data)
    resumed = recurrent.resume()
    assert (resumed.unfit, resumed.prompt) == ("damaged", ()) and "checksum" in resumed.problem
    assert recurrent.next()[1].reused_tokens == 0


def test_the_lens_sees_what_was_resumed_and_maps_say_what_is_missing(kept):
    expected = kept.client.result(Inspect(6))
    kept.again()
    kept.resume()
    assert kept.client.result(Inspect(6)).rows == expected.rows != ()
    for direction in ("from", "to"):
        for mode, heads in (("layer-mean", ()), ("heads", ((0, 1),))):
            with pytest.raises(RequestError, match="kept without queries"):
                kept.client.result(ReadAttentionRows(6, direction, mode, heads))


@pytest.mark.parametrize(
    ("options", "unfit"),
    [
        ({"mode": "int8"}, "weights"),
        ({"keys": "fp16"}, "types"),
        ({"values": "int4"}, "types"),
        ({"context": 60}, "context"),
    ],
)
def test_what_was_made_otherwise_is_not_offered_and_stays(kept, options, unfit):
    kept.again(**options)
    checked = kept.check(HELLO)
    assert (checked.unfit, checked.tokens) == (unfit, 0)
    assert kept.path.is_file()


def test_another_model_is_told_by_what_it_is(kept, tmp_path):
    kept.again(write_tiny_llama(tmp_path / "other.gguf", seed=3))
    assert kept.check().unfit == "model"
    assert kept.resume().unfit == "model" and kept.path.is_file()


def test_another_beginning_is_no_use_and_leaves_nothing_behind(kept):
    other = (ChatMessage("system", "You are a pirate."), *kept.messages)
    kept.again()
    assert kept.check(other).unfit == "beginning"
    assert kept.resume((ChatMessage("user", "x"),)).prompt != ()  # the template's own beginning
    assert kept.client.until(CacheStatus).length < kept.kept.tokens


def test_damage_is_told_before_anything_of_it_is_used(kept):
    kept.again()
    data = bytearray(kept.path.read_bytes())
    data[-40] ^= 1
    kept.path.write_bytes(data)
    assert kept.check().unfit == "", "the rows are not read to be offered"
    resumed = kept.resume()
    assert (resumed.unfit, resumed.prompt) == ("damaged", ()) and "checksum" in resumed.problem
    kept.path.write_bytes(data[:200])
    assert kept.check().unfit == "damaged"
    kept.path.unlink()
    assert kept.check().unfit == "damaged", "it is not there any more"
    assert kept.next()[1].reused_tokens == 0


def test_it_is_kept_while_the_program_ends(kept):
    kept.path.unlink()
    kept.next()
    kept.client.send(KeepConversation(7, str(kept.path), PLENTY))
    kept.close()
    told = [report.event for report in kept.client.engine.poll()]
    (again,) = (event for event in told if isinstance(event, CacheKept))
    assert kept.path.is_file() and again.bytes > kept.kept.bytes


def test_a_disk_that_hangs_does_not_hold_up_the_end(kept, monkeypatch):
    monkeypatch.setattr(kept_conversations, "CLOSING_SECONDS", 0.01)
    stopped, saved = [], on_disk.save

    def slow(path, prefix, identity, should_stop):
        while not should_stop():
            pass
        stopped.append(path)
        return saved(path, prefix, identity, should_stop)

    monkeypatch.setattr(on_disk, "save", slow)
    before = kept.path.read_bytes()
    kept.next()
    kept.client.send(KeepConversation(7, str(kept.path), PLENTY))
    kept.close()
    kept.client.engine._kept._thread.join(PATIENCE)
    assert stopped and kept.path.read_bytes() == before
    assert [path.name for path in kept.path.parent.iterdir()] == ["7.kv"]


def test_what_is_there_already_is_not_written_again_nor_what_is_too_large(kept):
    first = kept.path.stat().st_mtime_ns
    kept.client.send(KeepConversation(7, str(kept.path), PLENTY))
    kept.next()
    assert kept.path.stat().st_mtime_ns == first
    kept.client.send(KeepConversation(7, str(kept.path), 100))
    while "more than all of them may" not in kept.client.until(Logged).text:
        pass
    assert kept.path.stat().st_mtime_ns == first


def test_the_same_tokens_of_another_model_are_written_again(kept, tmp_path):
    other = write_tiny_llama(tmp_path / "other.gguf", seed=9)
    for model in (other, kept.model):
        kept.client.load(model, exact(context=0))
        kept.client.send(Read(kept.messages))
        kept.client.until(ConversationRead)
        assert isinstance(kept.keep(), CacheKept)
        assert kept.check().unfit == ""


def test_a_folder_that_cannot_be_written_is_one_sentence(kept):
    kept.path.unlink()
    kept.path.parent.rmdir()
    kept.path.parent.write_text("in the way")
    with pytest.raises(RequestError, match=r"^The conversation's cache could not be kept:"):
        kept.keep()


def test_saving_stops_between_two_tensors(kept, tmp_path):
    runner = kept.client.engine._host.runner
    prefix = runner.session.copy_prefix()
    assert all(isinstance(rows.data, np.ndarray) for rows in prefix.rows.values())
    with pytest.raises(FileError):
        on_disk.save(tmp_path / "no" / "x.kv", prefix, cache_transfer.identity(runner))
