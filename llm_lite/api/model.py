"""A model in Python: text in; tokens, NumPy arrays and pictures for notebooks out."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from llm_lite.api.answer import Answer, ComputedAnswer
from llm_lite.api.closing import ClosedByWith
from llm_lite.api.given import (
    Changes,
    Chosen,
    Message,
    Text,
    chosen_of,
    gains_of,
    interventions_of,
    messages_of,
    numbers_of,
    place_of,
    sampling_options,
)
from llm_lite.api.head_map import HeadMap
from llm_lite.api.lens import Lens
from llm_lite.api.reading import Reading
from llm_lite.api.token_text import TokenText
from llm_lite.core.encoding.pooling import check_makes_vectors
from llm_lite.core.errors import RequestError
from llm_lite.core.generation.answer_writer import AnswerWriter
from llm_lite.core.generation.prefill import PLAIN
from llm_lite.core.generation.prompt import Encoded, check_size, encode, encode_raw
from llm_lite.core.generation.sampling import check
from llm_lite.core.generation.token_texts import text_of
from llm_lite.core.inspect.expert_choices import Routing
from llm_lite.core.inspect.hidden_states import hidden_states
from llm_lite.core.inspect.text_maps import (
    EVERY_QUERY,
    check_maps,
    text_maps,
)
from llm_lite.core.loading import loader
from llm_lite.core.loading.encoder_starting import AnyRunner
from llm_lite.core.loading.model_file import LoadedModel, ModelFile
from llm_lite.core.messages import (
    AttentionRows,
    CacheMeasured,
    ChatMessage,
    EngineOptions,
    ExecutorInfo,
    FollowToken,
    Gains,
    Measure,
    MeasureCache,
    ModelInfo,
    ReadAttentionRows,
    ReadRouting,
    ReadStates,
    RoutingRead,
    SamplingOptions,
    StatesRead,
    StepRequest,
    TokenFollowed,
    TokenTrace,
)
from llm_lite.core.messages.encoding import Mask
from llm_lite.core.messages.inspecting.inside import Direction
from llm_lite.core.messages.inspecting.lesson import ANY_HEAD
from llm_lite.core.messages.interventions import NO_CHANGES, Interventions, LiveChanges
from llm_lite.core.metrics.divergence import log_softmax, perplexity
from llm_lite.core.metrics.perplexity import chunks_of
from llm_lite.core.questions import wire
from llm_lite.core.questions.activations import ActivationsRead, ReadActivations
from llm_lite.core.questions.attention_reader import check_rollout
from llm_lite.core.questions.interventions.live import live_changes
from llm_lite.core.questions.lens import layer_logits
from llm_lite.core.questions.patch import Patched
from llm_lite.core.questions.question import answer_of
from llm_lite.core.questions.runner_replay import RunnerReplay, sites_of_runner
from llm_lite.core.questions.scores import ReadScores, ScoresRead
from llm_lite.core.questions.sites import Site
from llm_lite.core.questions.table import BY_REQUEST, named
from llm_lite.core.records import replace
from llm_lite.core.text.chat_template import check_read
from llm_lite.core.text.tokenizer import StreamDecoder

_CHUNK = 512  # tokens of a chunk of `perplexity`, unless the text or the context has fewer


class Model(ClosedByWith):
    """A loaded model; close it, or use it in a `with` statement.

    Wherever a text is taken, ids of tokens are too. What is wrong with what is given is told as
    RequestError. Threads wait for each other.
    """

    def __init__(self, file: ModelFile, options: EngineOptions) -> None:
        self._file, self._options = file, options
        self._start()
        self._lock = threading.RLock()
        self._answer: Answer | None = None  # whose tokens are in the cache
        self._interventions = NO_CHANGES  # of the answer that is written
        self._closed = False
        info = self.info
        self._gains = np.ones((self._gain_rows, info.heads), np.float32)
        experts = (info.layers if info.experts else 0, 2, info.experts)
        self._switches = np.ones(experts, np.float32)
        self._in_force = self._gains.copy(), self._switches.copy()

    def _start(self) -> None:
        self._runner = loader.start(
            self._file, self._options, None, lambda *_: None, every_output=True
        )

    @property
    def note(self) -> str:
        """Return sentences on what is odd about how the model runs; "" if nothing is."""
        return "; ".join(filter(None, (self._runner.note, self._runner.undrafted)))

    @property
    def info(self) -> ModelInfo:
        """Name, sizes and layers of the model."""
        return self._runner.model_info

    @property
    def executor(self) -> ExecutorInfo:
        """Return what computes, in which weight mode, and why."""
        return self._runner.executor_info

    @property
    def _gain_rows(self) -> int:
        return self.info.layers

    @property
    def gains(self) -> NDArray[np.float32]:
        """A weight for every head, float32 [layers, heads]: 1 leaves it alone, 0 ablates it.

        Set them as a whole or in place, as in `model.gains[3, 2] = 0`: they hold from the next
        token that is computed. What was computed with others is then not used again.
        """
        return self._gains

    @gains.setter
    def gains(self, gains: ArrayLike) -> None:
        """Set the gains. RequestError unless they are finite numbers [layers, heads], or one number
        for all."""
        self._gains[:] = numbers_of("gains", gains, self._gains.shape)

    @property
    def expert_switches(self) -> NDArray[np.float32]:
        """Return the switches of the experts of a mixture, float32 [layers, 2, experts]: factors of
        shares, where 0 switches an expert off, and whether they are chosen, 1: as the router says,
        2: always, 0: after all others. Set them as `gains`; [0, 2, 0] for models without experts.
        """
        return self._switches

    @expert_switches.setter
    def expert_switches(self, switches: ArrayLike) -> None:
        """Set the switches. RequestError unless they are finite numbers of that shape, or one."""
        self._switches[:] = numbers_of("expert switches", switches, self._switches.shape)

    @property
    def _all_gains(self) -> Gains:
        layers, _, experts = self._switches.shape
        return gains_of(self._gains) + gains_of(self._switches.reshape(layers, 2 * experts))

    def generate(
        self,
        prompt: str | Sequence[Message],
        *,
        thinking: bool = True,
        template: Mapping[str, Any] = {},
        interventions: Changes = NO_CHANGES,
        **sampling: Any,
    ) -> Answer:
        """The answer to a question or a conversation: an iterator of tokens, computed as they are
        asked for, each with its text, its probability and what else might have come. `.text` is
        the whole of it.

        A conversation is a list of messages, as {"role": "user", "content": "Hello"}, and ends with
        a question; the model's own chat template is used. `sampling` are the fields of
        `core.messages.SamplingOptions`, as `temperature=0`, `seed=1` or `max_new_tokens=100`;
        `stop` takes a text too, `logit_bias` a dictionary, and `json_schema` a schema as text or as
        a dictionary. `thinking` is what the template's switch for thoughts is set to, where it has
        one; thoughts come with their marks, and `Answer.message` has them apart. `template` has the
        values of other variables of it, as {"reasoning_effort": "high"}. `interventions` scale
        heads and experts, and shift what layers leave, while the answer is written, beside `gains`.
        """
        check_read(self.info.template_variables, template)
        asked, messages = sampling_options(sampling, self.info), messages_of(prompt)
        changes = interventions_of(interventions)
        with self._using():
            check_size(self._file.tokenizer, messages, self.info.context)
            encoded = encode(self._file, messages, False, thinking, values=template)
            return self._begun(encoded, asked, changes)

    def complete(
        self, text: Text, *, interventions: Changes = NO_CHANGES, **sampling: Any
    ) -> Answer:
        """Continue a text, without a chat template; options and result are those of `generate`."""
        asked, changes = sampling_options(sampling, self.info), interventions_of(interventions)
        with self._using():
            if not isinstance(text, str):
                return self._begun(Encoded.of_ids(self._ids(text)), asked, changes)
            messages = (ChatMessage("user", text),)
            check_size(self._file.tokenizer, messages, self.info.context)
            return self._begun(encode_raw(self._file.tokenizer, messages), asked, changes)

    def tokenize(self, text: str) -> NDArray[np.int32]:
        """Return the ids int32 [n] of a text, with the begin and end tokens that the model asks
        for."""
        check_size(self._file.tokenizer, (ChatMessage("user", text),), self.info.context)
        return np.array(self._file.tokenizer.encode(text, add_special=True), np.int32)

    def detokenize(self, tokens: Iterable[int]) -> str:
        """Return the text of some ids; bytes that are no character become U+FFFD."""
        decoder = StreamDecoder(self._file.tokenizer)
        return decoder.feed(*map(int, tokens)) + decoder.flush()

    def tokens(self, text: Text) -> list[str]:
        """Return the text of each token; a character of several tokens stands with its last."""
        decoder = StreamDecoder(self._file.tokenizer)
        texts = [decoder.feed(token) for token in self._ids(text)]
        return [*texts[:-1], texts[-1] + decoder.flush()]

    def logits(self, text: Text) -> NDArray[np.float32]:
        """Return the logits float32 [n, vocabulary] of the token that follows each of the n
        tokens."""
        ids = self._ids(text)
        with self._using():
            return self._runner.session.logits(ids)

    def likelihood(self, text: Text) -> TokenText:
        """Return how likely the model finds each token, given those before it: `.weights` float32
        [n], NaN for the first. A notebook shows the text, tinted where it is unlikely."""
        ids = self._ids(text)
        log_p = np.concatenate([[np.nan], *self._scored(ids, 0)])
        return TokenText(self.tokens(ids), np.exp(log_p), likelihood=True)

    def perplexity(self, text: str, chunk: int = 0) -> float:
        """Return the perplexity as llama.cpp's perplexity tool defines it: of the second half of
        every chunk of `chunk` tokens. 0: 512, or as many as the text and the context have."""
        tokenizer = self._file.tokenizer
        if not chunk:
            before = len(tokenizer.around[0])
            found = before + len(tokenizer.encode(text, parse_special=False))
            chunk = max(4, min(_CHUNK, self.info.context, found))
        chunks = chunks_of(tokenizer, text, chunk)
        scored = [part for ids in chunks for part in self._scored(ids, len(ids) // 2)]
        return perplexity(np.concatenate(scored)).mean

    def embed(self, texts: str | Sequence[str]) -> NDArray[np.float32]:
        """float32 [texts, width], each of length 1: the mean over a text's tokens of the hidden
        state before the head. A text's likeness to another is the product of their rows."""
        check_makes_vectors(self._file.model.embedding, self._file.path)
        texts = [texts] if isinstance(texts, str) else texts
        rows = [self._mean_state(self._ids(text)) for text in texts]
        return np.array(rows, np.float32).reshape(len(rows), self.info.width)

    def fill(self, text: str, count: int = 5) -> list[Mask]:
        """Return the `count` likeliest tokens for each masked token of a text, as [MASK] or <mask>,
        if this is an `Encoder` with a masked-token head. RequestError for any other model."""
        raise RequestError(f"{self.info.name}: the model writes text and fills in no masked tokens")

    def attention(
        self, text: Text, layer: Chosen = None, head: Chosen = None
    ) -> NDArray[np.float32]:
        """Return how much each token attends to each: float32 [layers, heads, n, n], of whose last
        two axes the first is the query token and the second the key token; n is at least 2. A layer
        with a recurrent state has no weights: nan.

        `layer` and `head` are numbers (that axis is then left out), lists, or None for all.
        """
        ids, shape = self._ids(text), self._file.model.shape
        layers = chosen_of("layer", layer, shape.layers)
        heads = chosen_of("head", head, shape.heads)
        check_maps(ids, layers, heads, shape)
        with self._using(), self._attending(ids) as reading:
            maps = text_maps(reading.source, reading.session, ids, layers, heads)
        maps = maps[0] if isinstance(layer, int | np.integer) else maps
        return maps[..., 0, :, :] if isinstance(head, int | np.integer) else maps

    def head_map(self, text: Text, layer: int, head: int) -> HeadMap:
        """Return the map of one head, `.weights` float32 [n, n], which a notebook shows as a
        picture."""
        ids, info = self._ids(text), self.info
        (layer,) = chosen_of("layer", layer, info.layers)
        (head,) = chosen_of("head", head, info.heads)
        return HeadMap(self.tokens(ids), self.attention(ids, layer, head), layer, head)

    def rollout(
        self, text: Text, position: int = -1, *, to: bool = False, without_first: bool = False
    ) -> NDArray[np.float32]:
        """Return how much a token draws on each token of the text through all layers: float32 [n],
        the attention rollout of Abnar and Zuidema (2020), means over heads with the residual
        stream. `to`: how much each token draws on this one. `without_first` leaves the first token
        out of every layer, as it takes nearly everything otherwise."""
        ids, layers = self._ids(text), self.info.layers
        place = place_of(position, len(ids))
        check_rollout(layers, len(ids))
        direction: Direction = "to" if to else "from"
        asked = ReadAttentionRows(place, direction, "rollout", without_first=without_first)
        check_maps(ids, (), (), self._file.model.shape)
        read: AttentionRows = self._ask(ids, asked)
        return np.array(read.weights, np.float32)

    def scores(self, text: Text) -> dict[str, NDArray[np.float32]]:
        """Return what characterises each head by its map of the text, float32 [layers, heads] by
        name: `entropy` in nats, and the mean share of the `previous` token, of a `duplicate` of the
        token before it, of what stood behind one (`induction`), and of the `first` token; nan where
        no token counts."""
        ids = self._ids(text)
        check_maps(ids, (), (), self._file.model.shape)
        found: ScoresRead = self._ask(ids, ReadScores())
        return dict(found.scores)

    def statistics(self, text: Text, what: Measure) -> NDArray[np.float32]:
        """Return a number for each token of the text in each layer's cache, float32 [layers, n]:
        the norm of its keys ("key-norm") or values ("value-norm"), all heads together, or the
        attention that it receives ("received"), the mean over heads and the tokens from it on.
        Layers that share keys with an earlier one have no row."""
        if what not in get_args(Measure):
            expected = ", ".join(get_args(Measure))
            raise RequestError(f"what: expected {expected}, found {what!r}")
        ids = self._ids(text)
        check_maps(ids, (), (), self._file.model.shape)
        found: CacheMeasured = self._ask(ids, MeasureCache(what))
        return np.array(found.values, np.float32)

    def states(self, text: Text, layer: int, head: int) -> StatesRead:
        """Return what a head of a layer with a recurrent state holds of a text: what each token
        keeps and writes, the state's size, and the part of what each token reads that each other
        one wrote. `StatesRead` of core/messages/inspecting/inside.py. RequestError for layers and
        models that attend."""
        ids = self._ids(text)
        found: StatesRead = self._ask(ids, ReadStates(layer, head, len(ids)))
        return found

    def experts(self, text: Text) -> Routing:
        """Return which experts of a mixture each token of a text chose: `.chosen` uint16 [n,
        layers, k], the highest score first, `.shares` float32 [n, layers, k], what each weighs;
        `.layers` are the layers that have experts. RequestError for models without."""
        ids = self._ids(text)
        found: RoutingRead = self._ask(ids, ReadRouting())
        return Routing.of(found)

    def trace(
        self, text: Text, position: int = -1, layer: int = 0, head: int | None = None
    ) -> TokenTrace:
        """Return what a token of the text becomes on its way through the model, as the lesson shows
        it: `TokenTrace` of core/messages/inspecting/lesson.py. One layer is opened, and one head of
        it: without `head`, the one that attends most to other tokens than the first, the last and
        its own."""
        ids = self._ids(text)
        place = place_of(position, len(ids))
        asked = FollowToken(place, layer, ANY_HEAD if head is None else head)
        found: TokenFollowed = self._ask(ids, asked)
        return found.trace

    def ask(self, text: Text, question: str, **parameters: Any) -> Any:
        """Return the answer to a question about a text, by its name and parameters, which
        docs/questions.md lists: `model.ask("Hello", "lens", position=0)`. RequestError where there
        is no such question, or the model cannot answer it."""
        found = named(question)
        request = wire.request_of(found, parameters, self._ids)
        return found.present(self._ask(self._ids(text), request))

    def sites(self) -> tuple[Site, ...]:
        """Return the places of the model that can be read, in the order in which it computes: each
        with its name, its columns and what TransformerLens and Hugging Face call it."""
        return sites_of_runner(self._loaded)

    def interventions(self, changes: Changes) -> Interventions:
        """Return changes as a record that is this model's alone, to be kept: with its name, and
        what its weights are known by. Another model refuses them, and this one once its file holds
        other weights, as after a fine-tuning."""
        made = interventions_of(changes)
        return replace(made, model=self.info.name, weights=self._file.identity)

    def activations(
        self,
        text: Text,
        sites: str | Sequence[str],
        first: int = 0,
        last: int | None = None,
        *,
        interventions: Changes = NO_CHANGES,
    ) -> dict[str, NDArray[np.float32]]:
        """Return what sites of the model make of the tokens `first`..`last`-1 of a text, float32
        [tokens, columns] by the name that was given, under interventions. RequestError for a site
        that there is not."""
        names = (sites,) if isinstance(sites, str) else tuple(sites)
        request = ReadActivations(names, first, last, interventions_of(interventions))
        found: ActivationsRead = self._ask(self._ids(text), request)
        return dict(found.values)

    def patch(
        self,
        text: Text,
        source: Text | Answer | None = None,
        sites: str | Sequence[str] = (),
        positions: Sequence[int] | None = None,
        *,
        interventions: Changes = NO_CHANGES,
        **more: Any,
    ) -> Patched:
        """Return what would follow a text, had the model computed at `sites` and `positions` what
        it computes of another text or answer, the `source`, or with interventions; of an encoder,
        what its head would predict. `more` are the other parameters of `patch` in
        docs/questions.md, and of a `Translator` the `target`. RequestError where something does not
        fit."""
        given = {
            "sites": [sites] if isinstance(sites, str) else list(sites),
            "source": [] if source is None else self._source_of(source),
            "positions": None if positions is None else [int(one) for one in positions],
            "interventions": interventions_of(interventions),
        }
        found: Patched = self.ask(text, "patch", **given, **more)
        return found

    def _source_of(self, source: Text | Answer) -> str | list[int]:
        """Return another text as `ask` takes it."""
        return source if isinstance(source, str) else self._ids(source)

    def _ask(self, ids: Sequence[int], request: StepRequest) -> Any:
        """Return the answer to a question of core/questions/table.py about a text."""
        question = BY_REQUEST[type(request)]
        with self._using(), self._attending(ids, queries=question.reads_rows) as reading:
            reading.session.prefill(ids)
            return answer_of(question.run(request, reading.replay(question)))

    @property
    def _loaded(self) -> AnyRunner:
        """Return what runs the texts that are asked about."""
        return self._runner

    @property
    def _reading(self) -> Reading:
        """Return how the model reads a text, and what is asked about it."""
        return Reading.of(self._loaded)

    def highlight(self, text: Text, weights: ArrayLike) -> TokenText:
        """Return a text with a number for each of its tokens, [n], which a notebook shows as tints:
        a row of a head's map, for example."""
        return TokenText(self.tokens(text), np.asarray(weights))

    def lens(self, text: Text, position: int = -1) -> Lens:
        """Return the logits that each layer would already give behind a token of the text:
        `.logits` float32 [layers, vocabulary]. A notebook shows the likeliest tokens of every
        layer."""
        ids = self._ids(text)
        place = place_of(position, len(ids))
        with self._using():
            self._runner.session.prefill(ids[: place + 1])
            logits = np.stack(answer_of(layer_logits(place, RunnerReplay(self._runner))))
        tokenizer = self._file.tokenizer
        after = text_of(tokenizer, ids[place])
        return Lens(logits, lambda token: text_of(tokenizer, token), self._plain_ids, after)

    def _plain_ids(self, text: str) -> Sequence[int]:
        """Return the ids of a part of a text, without the tokens with which the model begins a
        text."""
        return self._file.tokenizer.encode(text, add_special=False)

    def close(self) -> None:
        """Free the model; an answer that is not finished ends."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._end()
                self._file.close()

    def _end(self) -> None:
        self._runner.close()

    def __repr__(self) -> str:
        info, how = self.info, self.executor
        sizes = f"{info.layers} layers of {info.heads} heads"
        return f"<Model {info.name!r}: {sizes}, {how.backend}, {how.mode}>"

    def _begun(
        self, encoded: Encoded, asked: SamplingOptions, interventions: Interventions
    ) -> Answer:
        self._live(interventions)  # refused before anything runs
        tokenizer, session = self._file.tokenizer, self._runner.session
        check(asked)
        session.check(encoded.ids, PLAIN)
        vocabulary = self.info.vocabulary
        make = partial(AnswerWriter, tokenizer, encoded, asked, vocabulary=vocabulary)
        return ComputedAnswer(make, session, partial(self._turn, interventions))

    @contextmanager
    def _turn(self, interventions: Interventions, answer: Answer) -> Iterator[None]:
        """Hold the model for one step of an answer."""
        with self._lock:
            self._check_open()
            begins = not answer.is_begun
            if not begins and self._answer is not answer:
                raise RequestError(
                    "the model was used for something else before this answer was finished: "
                    "generate it again"
                )
            self._answer = answer
            self._interventions = interventions
            self._use_gains(throughout=begins)
            yield

    @contextmanager
    def _using(self) -> Iterator[None]:
        """Hold the model for any computation besides an answer, which ends the answer that was
        begun."""
        with self._lock:
            self._check_open()
            self._answer, self._interventions = None, NO_CHANGES
            self._use_gains(throughout=True)
            yield

    def _check_open(self) -> None:
        if self._closed:
            raise RequestError("the model is closed: load it again")

    def _use_gains(self, *, throughout: bool) -> None:
        wanted = self._gains, self._switches
        if throughout or not all(map(np.array_equal, wanted, self._in_force)):
            changes = self._live(self._interventions)
            gains = self._all_gains if changes.gains is None else changes.gains
            self._runner.set_gains(gains, changes.shifts, throughout=throughout)
            self._in_force = self._gains.copy(), self._switches.copy()

    def _live(self, interventions: Interventions) -> LiveChanges:
        """Return how interventions act while an answer is written, on top of the gains."""
        program, model = self._runner.executor.program, LoadedModel(self.info.name, self._file)
        return live_changes(interventions, program, self._all_gains, model)

    @contextmanager
    def _attending(self, ids: Sequence[int], *, queries: bool = True) -> Iterator[Reading]:
        """Yield what reads a text that is asked about: the model as it runs if it keeps all keys of
        it, and all queries where these are needed, else a copy that does."""
        source, session = self._runner.attention, self._runner.session
        kept = [session.context, *(layer.key_rows for layer in source.layers)]
        if len(ids) <= min([source.ring_rows, *kept] if queries else kept):
            session.clear()
            yield self._reading
            return
        options = replace(
            self._options,
            context=len(ids),
            query_budget=EVERY_QUERY if queries else self._options.query_budget,
            whole_caches=True,
            draft_model="",
        )
        runner = loader.start(self._file, options, None, lambda *_: None)
        try:
            runner.session.set_gains(self._all_gains)
            yield Reading.of(runner)
        finally:
            runner.close()

    def _scored(self, ids: Sequence[int], first: int) -> list[NDArray[np.float64]]:
        """Log probabilities of the tokens behind `first`."""
        targets, parts, at = np.asarray(ids[first + 1 :]), [np.zeros(0)], 0
        with self._using():
            session = self._runner.session
            session.check(ids, PLAIN)
            session.clear()
            if len(targets):
                for rows in session.score(ids[:-1], first, session.max_outputs):
                    known = targets[at : at + len(rows)]
                    parts.append(log_softmax(rows)[np.arange(len(rows)), known])
                    at += len(rows)
        return parts

    def _mean_state(self, ids: Sequence[int]) -> NDArray[np.float64]:
        """float64 [width], of length 1"""
        with self._using():
            session, total, at = self._runner.session, np.zeros(self.info.width), 0
            session.clear()
            for step in session.prefill_chunks(session.prepare(ids)):
                part = np.array(ids[at : step.done], np.int32)
                for states in hidden_states(session, part, at):
                    total += states.sum(axis=0, dtype=np.float64)
                at = step.done
        length = float(np.linalg.norm(total))
        return total / length if length else total

    def _ids(self, text: Text | Answer) -> list[int]:
        if isinstance(text, Answer):
            text = [*text.prompt, *text.ids]
        ids = self.tokenize(text) if isinstance(text, str) else text
        if len(ids) == 0:
            raise RequestError("the text is empty: expected at least one token")
        return [int(token) for token in ids]
