"""One `Translate`: the source is encoded, then the target is written a token a step."""

from __future__ import annotations

import time

from msgspec import Struct

from llm_lite.core.errors import CancelledError
from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation.answer import Emit, cache_status
from llm_lite.core.generation.beam_search import BeamOptions
from llm_lite.core.generation.token_texts import completed_texts, text_of
from llm_lite.core.generation.translation import (
    Target,
    TargetWriter,
    encode_source,
    source_tokens,
    target_text,
    target_tokens,
)
from llm_lite.core.loading.beside import translator_of
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import (
    OtherTarget,
    SourceRead,
    StopReason,
    TargetFinished,
    TargetGrown,
    Translate,
    TranslationStats,
)
from llm_lite.core.messages.interventions import Interventions


class Translation(Struct):
    """One translation; after a change of executor it begins again, with the same result."""

    command: Translate
    emit: Emit
    should_stop: StopCheck
    interventions: Interventions | None = None  # those that are set
    _runner: Runner | None = None
    _options: BeamOptions | None = None
    _writer: TargetWriter | None = None  # None: the source was not read
    _source: int = 0  # tokens
    _encode_seconds: float = 0.0
    _decode_seconds: float = 0.0

    def begin(self, runner: Runner) -> None:
        command, tokenizer = self.command, runner.model_file.tokenizer
        translator = translator_of(runner)
        self._runner, self._writer, self._decode_seconds = runner, None, 0.0
        translator.options(command.beams)  # refused before anything is read
        ids = encode_source(tokenizer, command.source, runner.session.context)
        began = time.perf_counter()
        try:
            translator.read_source(ids, self.should_stop)
        except CancelledError:
            return
        self._encode_seconds, self._source = time.perf_counter() - began, len(ids)
        start = text_of(tokenizer, translator.start)
        self.emit(SourceRead(source_tokens(tokenizer, ids), start))
        self._options = translator.options(command.beams, command.most_tokens, keeps_choices=True)
        self._writer = translator.write(self._options, self.should_stop)

    def step(self) -> bool:
        if self._writer is None or self._runner is None:
            return False
        began = time.perf_counter()
        try:
            is_going = self._writer.step()
        except CancelledError:
            return False
        self._decode_seconds += time.perf_counter() - began
        tokens = self._writer.best.tokens
        texts = completed_texts(self._runner.model_file.tokenizer, tokens)
        self.emit(TargetGrown(tokens, tuple(texts)))
        return is_going

    def interrupted(self, seconds: float) -> None:
        """Ignore the time: only steps are measured."""

    def finish(self) -> None:
        if self._writer is None or self._runner is None:
            self.emit(TargetFinished(stop_reason="stopped"))
            return
        target = self._writer.finish()
        self.emit(self._finished(self._runner, target))
        self.emit(cache_status(self._runner.session))

    def abandon(self) -> None:
        """Emit nothing: all that was written was emitted."""

    def _finished(self, runner: Runner, target: Target) -> TargetFinished:
        tokenizer = runner.model_file.tokenizer
        others = (
            OtherTarget(target_text(tokenizer, o.tokens), o.score, target_tokens(tokenizer, o))
            for o in target.others
        )
        return TargetFinished(
            target_tokens(tokenizer, target.best),
            target_text(tokenizer, target.tokens),
            target.score,
            tuple(others),
            self._stats(len(target.tokens)),
            self._stop_reason(target),
        )

    def _stop_reason(self, target: Target) -> StopReason:
        assert self._options is not None and self._writer is not None
        if not self._writer.is_done:
            return "stopped"
        return "end" if target.tokens[-1] in self._options.ends else "length"

    def _stats(self, tokens: int) -> TranslationStats:
        assert self._options is not None
        seconds = self._decode_seconds
        return TranslationStats(
            self._source,
            tokens,
            self._options.width,
            self._options.most_tokens,
            1e3 * self._encode_seconds,
            1e3 * seconds,
            tokens / seconds if seconds > 0 else 0.0,
        )
