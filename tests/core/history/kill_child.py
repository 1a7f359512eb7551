"""Talks into a history until it is killed, and says on standard output what it did when.

    python -m tests.core.history.kill_child FILE SEED

Lines: `wrote TALK ID TOKENS TIME` and `finished TALK ID TOKENS TIME` when the call has returned,
with the system's monotonic clock; `flushed` when all lines before are in the file; `purged TALK`
before that is asked for.
The text of an answer follows from its id and the number of its tokens.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

from llm_lite.core.history import AnswerRun, History, ModelIdentity, StoredMessage

RUN = AnswerRun(ModelIdentity("tiny", "/models/tiny.gguf"))


def text_of(number: int, tokens: int) -> str:
    return " ".join(f"{number % 9973}.{token}" for token in range(tokens))


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def answer(history: History, chance: random.Random, talk: int, parent: int) -> StoredMessage:
    """Streams one; sometimes it is left unfinished."""
    message = history.begin_answer(talk, parent, RUN)
    count = chance.randrange(1, 400)
    step = chance.choice([1, 3, 40])
    for done in range(0, count, step):
        history.write_answer(message, text_of(message.id, done), "", tuple(range(done)))
        say("wrote", talk, message.id, done, time.monotonic())
        time.sleep(chance.choice([0, 0.0005, 0.003]))
    if chance.random() < 0.9:
        history.finish_answer(message, text_of(message.id, count), "", tuple(range(count)))
        say("finished", talk, message.id, count, time.monotonic())
    return message


def talk(history: History, chance: random.Random) -> None:
    number = history.begin().id
    question = history.add_message(number, None, text_of(number, 5))
    for _ in range(chance.randrange(1, 5)):
        reply = answer(history, chance, number, question.id)
        if chance.random() < 0.3:
            answer(history, chance, number, question.id)  # another version
        question = history.add_message(number, reply.id, text_of(reply.id, 3))
        if chance.random() < 0.3:
            question = history.edit(question, "Edited")
    history.set_pinned(number, chance.random() < 0.5)
    if chance.random() < 0.2:
        say("purged", number)
        history.delete([number])
        history.purge()
    if chance.random() < 0.5 and history.flush(60):
        say("flushed")


def main(arguments: list[str]) -> None:
    path, seed = arguments
    chance = random.Random(seed)
    history = History(Path(path))
    if not history.wait_until_open(60):
        raise SystemExit("the history does not open")
    say("ready")
    while True:
        talk(history, chance)


if __name__ == "__main__":
    main(sys.argv[1:])
