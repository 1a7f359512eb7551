"""What a cache lacks of a conversation."""

import pytest

from llm_lite.core.generation.token_texts import lacks_tokens
from llm_lite.core.messages import ChatMessage, PromptToken

OWNERS = (-1, 0, 0, -1, -1, 1, 1, -1)  # a question, an answer, and what a template writes


def tokens(owners):
    return [PromptToken(at, "x", owner) for at, owner in enumerate(owners)]


@pytest.mark.parametrize(
    ("owners", "role", "used", "lacks"),
    [
        (OWNERS, "assistant", 8, False),
        (OWNERS, "assistant", 6, False),  # the answer's last token is not computed
        (OWNERS, "assistant", 5, True),
        (OWNERS[:5], "assistant", 4, True),  # an answer without a token
        (OWNERS[:5], "assistant", 5, False),
        (OWNERS[:4], "user", 4, False),
        (OWNERS[:4], "user", 2, True),  # nobody has answered it
    ],
)
def test_what_a_cache_has_behind_an_answer_is_all(owners, role, used, lacks):
    roles = ("user", role) if role == "assistant" else ("user",)
    messages = [ChatMessage(role, "x") for role in roles]
    assert lacks_tokens(tokens(owners), used, messages) is lacks
