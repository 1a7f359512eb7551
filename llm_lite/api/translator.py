"""An encoder-decoder in Python: a source in; its target, logits and maps of attention out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn, get_args

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.api.given import Changes, Chosen, Text, chosen_of, gains_of, interventions_of
from llm_lite.api.reading import Reading
from llm_lite.api.without_answers import ModelWithoutAnswers
from llm_lite.core.errors import RequestError
from llm_lite.core.generation import translation
from llm_lite.core.inspect.attention import AttentionSource, head_maps
from llm_lite.core.loading.beside import translator_of
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import AttentionPart, Measure, StepRequest
from llm_lite.core.messages.interventions import NO_CHANGES
from llm_lite.core.questions import wire
from llm_lite.core.questions.activations import ActivationsRead, ReadActivations
from llm_lite.core.questions.encoded_text import EncodedText
from llm_lite.core.questions.question import Question, answer_of
from llm_lite.core.questions.runner_replay import EncoderReplay, replay_of
from llm_lite.core.questions.table import BY_REQUEST, named

_NOT_CONTINUED = "the model turns a source into a target and continues no text: use `translate`"


class Translation(Struct, frozen=True):
    """A target: its text without special tokens, its ids, and the score that beams are ranked by;
    `others`: what the beam found besides, the best first."""

    text: str
    tokens: tuple[int, ...]
    score: float
    others: tuple[Translation, ...] = ()

    def __str__(self) -> str:
        return self.text


class _Sources:
    """Reads sources, as a session reads prompts, and then what is begun of their targets."""

    def __init__(self, runner: Runner, begun: Sequence[int] | None = None) -> None:
        self._runner, self._begun = runner, begun

    def prefill(self, prompt: Sequence[int], /) -> None:
        self._runner.read_source(prompt)
        if self._begun is not None:
            translator_of(self._runner).read_target(self._begun)


class Translator(ModelWithoutAnswers):
    """A loaded encoder-decoder, as T5 and Marian are: it reads a source and writes its target.

    `translate`, `logits`, `attention`, `gains` and what is of tokens work as told; whatever would
    continue a text ends in RequestError.
    """

    @property
    def _gain_rows(self) -> int:
        """Return the rows of gains: the decoder's layers, their attention to the source, and the
        encoder's layers."""
        return len(self._runner.gains)

    def translate(self, text: Text, *, beams: int = 0, max_new_tokens: int = 0) -> Translation:
        """Return the target of a source, with as many beams as the model's file says unless you say
        it; 1: the likeliest token is taken each time. RequestError for a source that is too
        long."""
        ids = self._source_ids(text)
        with self._using():
            translator = translator_of(self._runner)
            translator.options(beams)  # refused before anything is read
            translator.read_source(ids)
            found = translator.whole(translator.options(beams, max_new_tokens))
        best, *others = (
            Translation(self._text_of(one.tokens), tuple(one.tokens), one.score)
            for one in (found.best, *found.others)
        )
        return Translation(best.text, best.tokens, best.score, tuple(others))

    def logits(self, text: Text, target: Text = ()) -> NDArray[np.float32]:
        """Return the logits float32 [1 + n, vocabulary] of the target's token that comes first, and
        of those that follow each of the n that are given."""
        source, begun = self._source_ids(text), self._target_ids(target)
        with self._using():
            translator = translator_of(self._runner)
            translator.read_source(source)
            return self._runner.session.logits([translator.start, *begun])

    def attention(
        self,
        text: Text,
        layer: Chosen = None,
        head: Chosen = None,
        *,
        target: Text = (),
        part: AttentionPart = "encoder",
    ) -> NDArray[np.float32]:
        """Return how much each token attends to each: float32 [layers, heads, q, k]. `part`: of the
        source to itself ("encoder"), of the target, its start token and those that are given, to
        itself ("decoder"), or to the source ("cross").

        `layer` and `head` are numbers (that axis is then left out), lists, or None for all.
        """
        if part not in get_args(AttentionPart):
            expected = ", ".join(get_args(AttentionPart))
            raise RequestError(f"part: expected {expected}, found {part!r}")
        source, begun = self._source_ids(text), self._target_ids(target)
        with self._using():
            translator = translator_of(self._runner)
            translator.read_source(source)
            translator.read_target(begun)
            maps = self._maps(self._runner.attention_of(part), layer, head)
        maps = maps[0] if isinstance(layer, int | np.integer) else maps
        return maps[..., 0, :, :] if isinstance(head, int | np.integer) else maps

    def _maps(self, source: AttentionSource, layer: Chosen, head: Chosen) -> NDArray[np.float32]:
        if source.note:
            raise RequestError(source.note)
        layers = chosen_of("layer", layer, len(source.layers))
        heads = chosen_of("head", head, self.info.heads)
        found = []
        for number in layers:
            rows = source.rows_of(number)
            maps = np.empty((len(heads), len(rows), source.columns(number)), np.float32)
            head_maps(source, number, heads, maps)
            found.append(maps)
        return np.stack(found)

    def ask(self, text: Text, question: str, *, target: Text = (), **parameters: Any) -> Any:
        """Return the answer to a question about a source, as `Model.ask`, and about its target:
        the start token and the tokens that are given."""
        found = named(question)
        request = wire.request_of(found, parameters, self._source_ids, self._target_ids)
        return found.present(self._answer_to(self._source_ids(text), request, target))

    def activations(
        self,
        text: Text,
        sites: str | Sequence[str],
        first: int = 0,
        last: int | None = None,
        *,
        target: Text = (),
        interventions: Changes = NO_CHANGES,
    ) -> dict[str, NDArray[np.float32]]:
        """Return what sites make under interventions, as `Model.activations`: those of the encoder
        of the tokens of a source, those of the decoder of a target, its start token and the tokens
        that are given. `first` and `last` are positions in either."""
        names = (sites,) if isinstance(sites, str) else tuple(sites)
        request = ReadActivations(names, first, last, interventions_of(interventions))
        found: ActivationsRead = self._answer_to(self._source_ids(text), request, target)
        return dict(found.values)

    def embed(self, texts: str | Sequence[str]) -> NoReturn:
        self._refuse()

    def states(self, text: Text, layer: int, head: int) -> NoReturn:
        self._refuse()

    def experts(self, text: Text) -> NoReturn:
        self._refuse()

    def trace(
        self, text: Text, position: int = -1, layer: int = 0, head: int | None = None
    ) -> NoReturn:
        self._refuse()

    def statistics(self, text: Text, what: Measure) -> NoReturn:
        self._refuse()

    def _answer_to(self, ids: Sequence[int], request: StepRequest, target: Text) -> Any:
        question = BY_REQUEST[type(request)]
        if not question.of_pairs:
            return self._ask(ids, request)
        with self._using():
            _Sources(self._runner, self._target_ids(target)).prefill(ids)
            return answer_of(question.run(request, replay_of(question, self._runner)))

    @contextmanager
    def _attending(self, ids: Sequence[int], *, queries: bool = True) -> Iterator[Reading]:
        """Yield the attention of the encoder, and what reads a source."""
        source, encoder = self._runner.attention_of("encoder"), self._runner.source_encoder
        if source.note:
            raise RequestError(source.note)
        assert encoder is not None, "an encoder-decoder has an encoder"
        text = partial(EncodedText, encoder, self._runner.session.files)

        def replay(question: Question) -> EncoderReplay:
            if not question.of_encoders:
                self._refuse()
            return EncoderReplay(text(), source, lambda _: self._refuse())

        yield Reading(source, _Sources(self._runner), replay)

    def _refuse(self) -> NoReturn:
        raise RequestError(f"{self.info.name}: {_NOT_CONTINUED}")

    def _use_gains(self, *, throughout: bool) -> None:
        self._runner.set_gains(gains_of(self._gains), throughout=throughout)

    def _source_ids(self, text: Text) -> list[int]:
        if not isinstance(text, str):
            return self._ids(text)
        return translation.encode_source(self._file.tokenizer, text, self.info.context)

    def _target_ids(self, target: Text) -> list[int]:
        if isinstance(target, str):
            return self._file.tokenizer.encode(target, add_special=False)
        return [int(token) for token in target]

    def _text_of(self, tokens: Sequence[int]) -> str:
        return translation.target_text(self._file.tokenizer, tokens)
