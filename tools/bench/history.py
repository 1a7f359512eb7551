"""How long a large history takes to list, search and open.

    python -m tools.bench.history [--conversations 10000] [--messages 200000] [--keep FILE]

Builds a history of random words with known rare ones, then reads it: medians and the slowest, in
milliseconds. Pages of the list with a cold file are the first of a new process' connection; the
system's own cache of the file is left as it is.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from llm_lite.core.history import (
    AnswerEnd,
    AnswerRun,
    ConversationSummary,
    History,
    ModelIdentity,
    StoredConversation,
    StoredMessage,
)
from llm_lite.core.history.ids import new_id
from llm_lite.core.messages import GenerationStats, SamplingOptions

LONG = 2000  # messages of the conversation that is opened
_SYLLABLES = "ka to mi ra ne so lu vi pe an or in es ti da mo re li no sa"
_KOREAN = "오늘 날씨 어때 내일 서울 비가 온다 사람 시간 생각"
_CHINESE = "今天 天气 怎么样 明天 北京 下雨 时间 问题 学习 中国"
# What is typed, a key after the other, and words of every kind.
QUERIES = (
    "the", "the a", "quick", "quick brown", "zyxw", "zyxwvu rare", "kato", "katomi", "katomi rane",
    "날씨", "오늘 날씨", "天气", "北京 下雨", "no such words anywhere", 'a "quoted" (word', "ka",
    "q",
)  # fmt: skip


def words(chance: random.Random, vocabulary: list[str], count: int) -> str:
    return " ".join(chance.choices(vocabulary, k=count))


def vocabulary(chance: random.Random) -> list[str]:
    """Four thousand words; a few of them are said often, as in any language."""
    made = {
        "".join(chance.choices(_SYLLABLES.split(), k=chance.randrange(1, 5))) for _ in range(4000)
    }
    often = ["the", "a", "of", "to", "and"] * 300
    return [*sorted(made), *often, *(_KOREAN.split() * 10), *(_CHINESE.split() * 10)]


def conversation(chance: random.Random, known: list[str], count: int) -> StoredConversation:
    number, at = new_id(), 1.7e9 + chance.random() * 1e8
    ids = [new_id() for _ in range(count)]
    run = AnswerRun(ModelIdentity("tiny", "/models/tiny.gguf"), sampling=SamplingOptions(seed=1))
    end = AnswerEnd("end", GenerationStats(100, 50, 40, 100.0, 20.0), seconds=2.0)
    messages = []
    for place, message in enumerate(ids):
        is_answer = place % 2 == 1
        text = words(chance, known, chance.randrange(30, 90) if is_answer else 12)
        if chance.random() < 0.0002:
            text += " zyxwvu rare"
        messages.append(
            StoredMessage(
                message,
                number,
                ids[place - 1] if place else None,
                "assistant" if is_answer else "user",
                text,
                tokens=tuple(chance.choices(range(50_000), k=60)) if is_answer else (),
                created=at + place,
                selected=ids[place + 1] if place + 1 < count else None,
                run=run if is_answer else None,
                end=end if is_answer else None,
            )
        )
    title = words(chance, known, 5)
    summary = ConversationSummary(number, title, "message", at, at + count, selected=ids[0])
    return StoredConversation(summary, tuple(messages))


def build(path: Path, conversations: int, messages: int) -> int:
    """The id of the long conversation."""
    chance = random.Random(1)
    known = vocabulary(chance)
    history = History(path)
    began = time.monotonic()
    each = max(2, (messages - LONG) // max(1, conversations - 1))
    for number in range(conversations - 1):
        history.add(conversation(chance, known, each))
        if number % 200 == 199:
            while not history.flush(600):
                time.sleep(0.1)
    long = history.add(conversation(chance, known, LONG)).id
    history.flush(600)
    if not history.close(600):
        raise SystemExit("the history could not be saved")
    seconds = time.monotonic() - began
    size = path.stat().st_size / 2**20
    print(f"built in {seconds:.0f} s: {conversations} conversations, {size:.0f} MiB")
    return long


def timed(what: str, times: int, work: Callable[[], object]) -> None:
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append((time.perf_counter() - began) * 1000)
    print(f"{what:<44} {median(taken):8.2f} ms  (slowest {max(taken):.2f})")


def measure(path: Path, long: int) -> None:
    began = time.perf_counter()
    history = History(path)
    history.wait_until_open(60)
    history.page()
    print(f"{'opened, with the first page':<44} {(time.perf_counter() - began) * 1000:8.2f} ms")
    timed("a page of 100", 50, history.page)
    cursor = history.page(limit=5000).next
    timed("a page of 100 from the middle", 50, lambda: history.page(cursor))
    timed(f"a conversation of {LONG} messages", 20, lambda: history.conversation(long))
    found = history.page(limit=200).conversations
    few = random.Random(2).sample([summary.id for summary in found], 50)
    timed("a conversation of 20 messages", 50, lambda: history.conversation(few[0]))
    for query in QUERIES:
        results = history.search(query)
        note = f"{len(results.found)}{'' if results.complete else '+'}"
        timed(f"search {query!r}: {note}", 10, lambda query=query: history.search(query))
    history.close()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--conversations", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--keep", type=Path, help="build the file here, or measure the one there")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "history.db"
        if path.exists():
            history = History(path)
            history.wait_until_open(60)
            newest = max(history.all_ids())
            history.close()
        else:
            newest = build(path, options.conversations, options.messages)
        measure(path, newest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
