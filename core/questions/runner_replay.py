"""The sequence of a loaded model, for questions: the conversation of a decoder, or the last text of
an encoder."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from llm_lite.core.errors import RequestError
from llm_lite.core.finite import Values
from llm_lite.core.generation.token_texts import text_of
from llm_lite.core.inspect.attention import AttentionSource
from llm_lite.core.loading import loader
from llm_lite.core.loading.encoder_starting import AnyRunner
from llm_lite.core.loading.model_file import LoadedModel
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import AttentionPart, FollowToken, ReadAttentionRows, TokenTrace
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.questions.attention_reader import AttentionRowsReader
from llm_lite.core.questions.encoded_text import EncodedText
from llm_lite.core.questions.interventions.table import UNKNOWN
from llm_lite.core.questions.question import Question
from llm_lite.core.questions.replay import OtherText
from llm_lite.core.questions.session_replay import SessionReplay, no_responses
from llm_lite.core.questions.sites import Site, all_sites
from llm_lite.core.questions.tracing import traced


class Readers:
    """Readers of attention rows, one for each part of a model. A rollout is kept from one question
    to the next, that of the last part alone: each may take ROLLOUT_BYTES."""

    def __init__(self) -> None:
        self._kept: dict[AttentionPart, AttentionRowsReader] = {}

    def reader(self, request: ReadAttentionRows, source: AttentionSource) -> AttentionRowsReader:
        """Return the reader of the requested part, whose queries and keys `source` has now."""
        found = self._kept.get(request.part)
        if found is None or found.source is not source:
            found = self._kept[request.part] = AttentionRowsReader(source)
        if request.mode == "rollout":
            for other in self._kept.values():
                if other is not found:
                    other.forget_rollout()
        return found

    def clear(self) -> None:
        self._kept.clear()


class RunnerReplay(SessionReplay):
    """The conversation of a decoder. `readers` are kept by the caller, for the next question."""

    def __init__(self, runner: Runner, readers: Readers | None = None) -> None:
        tokenizer = runner.model_file.tokenizer
        super().__init__(
            runner.session, runner.attention, runner.weights, partial(text_of, tokenizer)
        )
        self._runner, self._readers = runner, readers or Readers()
        if runner.source_encoder is not None:
            self.encoded = EncodedText(runner.source_encoder, runner.session.files)
        self.model = LoadedModel(runner.model_info.name, runner.model_file)

    def rows_reader(self, request: ReadAttentionRows) -> AttentionRowsReader:
        return self._readers.reader(request, self._runner.attention_of(request.part))

    def trace(self, request: FollowToken) -> TokenTrace:
        return traced(self._runner, request)


class EncoderReplay:
    """The text that an encoder has read, `Inspected`; `source` has its queries and keys."""

    is_shared = False
    decodes = False

    def __init__(
        self,
        encoded: EncodedText,
        source: AttentionSource,
        trace: Callable[[FollowToken], TokenTrace],
        readers: Readers | None = None,
        token_text: Callable[[int], str] = str,
        model: LoadedModel = UNKNOWN,
    ) -> None:
        self.encoded, self.length = encoded, encoded.length
        self._source, self._readers = source, readers or Readers()
        self.trace, self.token_text, self.model = trace, token_text, model
        self.find_response: Callable[[str], OtherText] = no_responses

    @property
    def layers(self) -> tuple[AttentionLayer, ...]:
        return self._source.layers

    def check(self) -> None:
        self.encoded.check()

    def checked(self, values: Values, what: str) -> Values:
        return self.encoded.checked(values, what)

    def response(self, name: str) -> AbstractContextManager[OtherText]:
        return nullcontext(self.find_response(name))

    def attended(self, layers: Collection[int], rows: range | None = None) -> AttentionSource:
        self.check()
        return self._source

    def rows_reader(self, request: ReadAttentionRows) -> AttentionRowsReader:
        return self._readers.reader(request, self._source)


def sites_of_runner(runner: AnyRunner) -> tuple[Site, ...]:
    """Return the sites of a loaded model."""
    plan = runner.executor.program.plans[0]
    if not isinstance(runner, Runner):
        return all_sites(None, plan)
    source = runner.source_encoder
    return all_sites(plan, None if source is None else source.executor.program.plans[0])


def replay_of(
    question: Question,
    runner: AnyRunner,
    readers: Readers | None = None,
    *,
    find_response: Callable[[str], OtherText] | None = None,
) -> RunnerReplay | EncoderReplay:
    """Return the sequence of a loaded model for this question; of a server, which finds responses
    by name. RequestError where the question is not for an encoder."""
    replay = _replay_of(question, runner, readers)
    if find_response is not None:
        replay.is_shared, replay.find_response = True, find_response
    return replay


def _replay_of(
    question: Question, runner: AnyRunner, readers: Readers | None
) -> RunnerReplay | EncoderReplay:
    if isinstance(runner, Runner):
        return RunnerReplay(runner, readers)
    if not question.of_encoders:
        raise RequestError(loader.encoder_refusal(runner.model_file))
    encoded = EncodedText(runner.session, runner.session.files)
    text = partial(text_of, runner.model_file.tokenizer)
    model = LoadedModel(runner.model_info.name, runner.model_file)
    return EncoderReplay(encoded, runner.attention, partial(traced, runner), readers, text, model)
