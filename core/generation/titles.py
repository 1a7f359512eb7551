"""A title for a conversation, by the model that leads it.

The request is put behind the conversation in the cache, where only its few tokens have to be read.
The rows that it takes are restored afterwards: cache, queries and attention maps are as they were.
"""

from __future__ import annotations

from collections.abc import Sequence

from llm_lite.core.errors import CancelledError
from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation.answer import ChatRunner
from llm_lite.core.generation.prefill import chunks
from llm_lite.core.generation.prompt import encode
from llm_lite.core.generation.sampling import Sampler
from llm_lite.core.generation.session import Session
from llm_lite.core.kv_cache.provenance import common
from llm_lite.core.messages import ChatMessage, SamplingOptions
from llm_lite.core.text.continued import is_text
from llm_lite.core.text.tokenizer import Tokenizer

REQUEST = (
    "Give our conversation a title of three to six words. Reply with the title and nothing else."
)
ANSWER_START = 'Title: "'  # of the answer to it: a small model would rather chat
ENDS = ('"', "\n")
SAMPLING = SamplingOptions(temperature=0.2, seed=1, max_new_tokens=16)
MOST_READ = 512  # tokens that are worth reading for a title


def make_title(
    runner: ChatRunner, messages: Sequence[ChatMessage], should_stop: StopCheck
) -> str | None:
    """Return the model's title; "" if it comes to no end, or the cache does not hold the
    conversation or has no room, and None if it was stopped. LlmLiteError if the model or its
    template is at fault."""
    session, file = runner.session, runner.model_file
    if is_text(messages):  # no conversation, whose subject the model could name
        return ""
    conversation = (*messages, ChatMessage("user", REQUEST), ChatMessage("assistant", ANSWER_START))
    prompt = encode(file, conversation, continue_last=True, thinking=False).ids
    shared = min(common(session.tokens(), prompt, len(prompt) - 1), session.context_used)
    start = session.cache.longest_usable(shared)
    count = len(prompt) - start + SAMPLING.max_new_tokens
    fits = start + count <= session.context and len(prompt) - start <= MOST_READ
    if not fits or session.cache.gaps or (shared and not start):
        return ""
    try:
        with session.scratch_steps(start, count):
            return _generated(session, file.tokenizer, prompt, start, should_stop)
    except CancelledError:
        return None


def _generated(
    session: Session,
    tokenizer: Tokenizer,
    prompt: Sequence[int],
    start: int,
    should_stop: StopCheck,
) -> str:
    sampler, tokens = Sampler(SAMPLING), list(prompt)
    for part in chunks(prompt[start:], session.executor.program.chunk):
        logits = session.run_scratch(part, start, should_stop)
        start += len(part)
    for _ in range(SAMPLING.max_new_tokens):
        token = sampler.choose(logits, tokens).token
        tokens.append(token)
        text = tokenizer.decode(tokens[len(prompt) :])
        if token in tokenizer.end_ids or any(end in text for end in ENDS):
            return min((text.split(end)[0] for end in ENDS), key=len)
        logits = session.run_scratch([token], start, should_stop)
        start += 1
    return ""
