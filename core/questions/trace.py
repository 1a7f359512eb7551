"""One token traced through the model: all numbers of it, as the lesson shows them."""

from __future__ import annotations

from llm_lite.core.messages import FollowToken, TokenFollowed
from llm_lite.core.questions.question import Parts, Question
from llm_lite.core.questions.replay import Inspected


def run(request: FollowToken, replay: Inspected) -> Parts[TokenFollowed]:
    yield from ()
    return TokenFollowed(replay.trace(request))


TRACE = Question(
    "trace",
    FollowToken,
    TokenFollowed,
    run,
    "what a token becomes",
    FollowToken(0, 0, 0),
    of_encoders=True,
)
