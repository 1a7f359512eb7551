"""A server's model with the interface of the local engine: commands in, the same events out."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable

from llm_lite.core import system_errors
from llm_lite.core.errors import CancelledError, LlmLiteError
from llm_lite.core.handles import (
    CANCELLED,
    CLOSING,
    SUPERSEDED,
    Handle,
    Outbox,
    Report,
    cancel,
)
from llm_lite.core.messages import (
    CacheLayout,
    CacheRewritten,
    Cancel,
    ChatMessage,
    Command,
    CompareTexts,
    ConversationRead,
    CountTokens,
    EncodeText,
    Event,
    ExecutorInfo,
    Generate,
    GenerationFinished,
    Level,
    LoadModel,
    Logged,
    ModelInfo,
    ModelLoaded,
    Read,
    Shutdown,
    SpellTokens,
    TextEncoded,
    TokensSpelled,
)
from llm_lite.core.messages.encoding import EncoderInfo
from llm_lite.core.messages.remote import RemoteModel, RemoteServer
from llm_lite.core.questions.question import Question
from llm_lite.core.questions.table import BY_REQUEST, NEWEST_ONLY
from llm_lite.core.records import replace
from llm_lite.core.remote.address import Address
from llm_lite.core.remote.answer import RemoteAnswer
from llm_lite.core.remote.client import Client, Exchange
from llm_lite.core.remote.connecting import chosen
from llm_lite.core.remote.counting import count_tokens, prompt_of, within_context
from llm_lite.core.remote.dialects import DIALECTS
from llm_lite.core.remote.encoding import compare, encode
from llm_lite.core.remote.failures import RemoteError, RemoteStatusError
from llm_lite.core.remote.inspection import RemoteInspection, RemoteResponse
from llm_lite.core.text.continued import is_text, pieces

_LOOK_SECONDS = 10.0
_GONE = 404  # the status of a response that a server no longer keeps


class RemoteEngine:
    """The engine for a model of a server. `wake` is called on its thread for events."""

    def __init__(
        self,
        client: Client,
        server: RemoteServer,
        model: RemoteModel,
        wake: Callable[[], None] | None = None,
    ) -> None:
        self.client, self.server, self.model = client, server, model
        self._dialect = DIALECTS[server.dialect]
        self._outbox = Outbox(wake)
        self._emit = self._outbox.emit
        self._commands: queue.SimpleQueue[Handle] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._open: list[Handle] = []  # of commands that have not ended
        self._closing = False
        self._is_closed = False  # no command is carried out any more
        self._unknown: set[str] = set()  # fields that the server refuses
        self.inspection = RemoteInspection(client)
        # The last answer, or text that an encoder has read, if it can be inspected.
        self.held: RemoteResponse | None = None
        self._encoded: EncodeText | None = None  # what `held` is of, where it is a text
        self._thread = threading.Thread(target=self._work, name="remote engine", daemon=True)
        self._thread.start()

    @property
    def info(self) -> ModelInfo:
        return model_info(self.server, self.model)

    @property
    def executor(self) -> ExecutorInfo:
        return executor_info(self.server, self.model)

    def submit(self, command: Command) -> Handle:
        """Hand a command over; returns at once."""
        handle = Handle(command, self._outbox.put)
        with self._lock:
            self._open = [one for one in self._open if not one.is_over]
            if self._is_closed:
                handle.end("" if isinstance(command, Shutdown) else CLOSING)
                return handle
            open_before = tuple(self._open)
            self._open.append(handle)
            self._closing = self._closing or isinstance(command, Shutdown)
        if isinstance(command, Shutdown):
            for one in open_before:
                one.cancel()
        if isinstance(command, Cancel):
            cancel(open_before, command)
            handle.end()
        else:
            self._commands.put(handle)
        return handle

    def poll(self) -> list[Report]:
        """Return the reports since the last call, in order; never waits."""
        return self._outbox.poll()

    def wait(self, timeout: float) -> list[Report]:
        """Return the reports as `poll` does, but wait up to `timeout` seconds for the first one."""
        return self._outbox.wait(timeout)

    def loaded(self) -> ModelLoaded:
        """Return an event for its model, as if it had just been loaded."""
        return ModelLoaded(self.info, self.executor, 0.0)

    def close(self, timeout: float = 2.0) -> bool:
        self.submit(Shutdown())
        self._thread.join(timeout)
        self._end_open()  # of a thread that did not end
        return not self._thread.is_alive()

    # The thread from here on.

    def _work(self) -> None:
        while not self._closing:
            handle = self._commands.get()
            exchange = Exchange()
            handle.on_cancel = exchange.cancel
            problem = ""
            try:
                if handle.is_cancelled:  # before it was begun
                    raise CancelledError(CANCELLED)
                if self._is_superseded(handle):
                    handle.end(SUPERSEDED, unwanted=True)
                    continue
                self._do(handle, handle.command, exchange)
            except CancelledError:
                handle.end(CANCELLED, unwanted=True)
            except LlmLiteError as error:
                problem = str(error)
            except BaseException as error:
                problem = system_errors.sentence(error) or system_errors.defect(error)
                self._log("error", f"internal error, please report it: {traceback.format_exc()}")
            handle.end(problem)
        self._end_open()

    def _end_open(self) -> None:
        """End the commands that were not carried out before the engine closed."""
        with self._lock:
            self._is_closed = True
            for handle in self._open:
                handle.end("" if isinstance(handle.command, Shutdown) else CLOSING)

    def _is_superseded(self, handle: Handle) -> bool:
        """Return whether a newer request of its kind waits, and only the newest one is answered."""
        kind = type(handle.command)
        if not issubclass(kind, NEWEST_ONLY):
            return False
        with self._lock:
            later = self._open[self._open.index(handle) + 1 :] if handle in self._open else []
        return any(type(one.command) is kind and not one.is_cancelled for one in later)

    def _do(self, handle: Handle, command: Command, exchange: Exchange) -> None:
        if isinstance(command, Generate):
            self._generate(handle, command, exchange)
        elif isinstance(command, Read):
            handle.emit(ConversationRead())
        elif isinstance(command, SpellTokens):
            handle.emit(TokensSpelled(()))
        elif isinstance(command, CountTokens):
            name = self.model.name
            handle.emit(count_tokens(command, self.client, self._dialect, name, exchange))
        elif isinstance(command, LoadModel):
            self.model, self.held = chosen(self.server, command.source), None
            handle.emit(self.loaded())
        elif isinstance(command, EncodeText):
            handle.emit(self._encode(command, exchange))
        elif isinstance(command, CompareTexts):
            encoder, name = self._encoder(), self.model.name
            handle.emit(compare(command, encoder, self.client, name, exchange))
        elif (question := BY_REQUEST.get(type(command))) is not None:
            self._ask(handle, command, question, exchange)
        elif not isinstance(command, Shutdown):
            problem = f"{self._name} computes elsewhere: that can be done to a model here"
            raise RemoteError(problem)

    def _generate(self, handle: Handle, command: Generate, exchange: Exchange) -> None:
        if is_text(command.messages):  # one text, which a server continues as it is
            text = "".join(pieces(command.messages))
            command = replace(command, messages=(ChatMessage("text", text),), raw=True)

        def emit(event: Event) -> None:
            if isinstance(event, GenerationFinished):
                self._inspect(handle, command, answer)
            else:  # the server is read no faster than the window folds: TCP holds it back
                self._outbox.wait_for_room(lambda: exchange.cancelled)
            handle.emit(event)

        command = within_context(command, self.client, self._dialect, self.model, exchange)
        prompt = prompt_of(command, self.client, self._dialect, self.model.name, exchange)
        answer = RemoteAnswer(
            command,
            self.client,
            self._dialect,
            self.model.name,
            emit,
            exchange,
            self._unknown,
            prompt,
        )
        before = set(self._unknown)
        try:
            answer.run()
        finally:
            for name in sorted(self._unknown - before):
                self._log("info", f"{self.server.host} does not take {name}: it is left out")

    def _ask(
        self, handle: Handle, command: Command, question: Question, exchange: Exchange
    ) -> None:
        """Answer a question about what is held. A text that the server has forgotten, as it keeps
        only the last ones of all who ask, is read again."""
        held = self._inspected(question.subject)
        handle.of_tokens = held.tokens
        try:
            answer = self.inspection.ask(held, command, exchange)
        except RemoteStatusError as error:
            if error.status != _GONE or not held.is_encoded or self._encoded is None:
                raise
            self._encode(self._encoded, exchange)
            again = self._inspected(question.subject)
            if again.tokens != held.tokens:
                raise
            answer = self.inspection.ask(again, command, exchange)
        handle.emit(answer)

    def _encode(self, command: EncodeText, exchange: Exchange) -> TextEncoded:
        """Have the text read; from then on it is what questions are about."""
        encoder = self._encoder()
        self.held = None
        name, found = encode(command, encoder, self.client, self.model.name, exchange)
        held = self.inspection.held(name, exchange, is_encoded=True)
        tokens, model = tuple(one.token for one in found.tokens), self.model
        for field, expected, found_there in (
            ("tokens", tokens, held.tokens),
            ("layers", model.layers, held.layers),
            ("heads", model.heads, held.heads),
        ):
            if found_there != expected:
                raise RemoteError(
                    f"{self.server.host} tells nothing usable of the text: its {field} are others "
                    "in /inspect/cache"
                )
        self.held, self._encoded = held, command
        return found

    def _encoder(self) -> EncoderInfo:
        """Return what the model can do with texts. RemoteError if it is no encoder."""
        if self.model.encoder is None or not self.server.can_inspect:
            raise RemoteError(f"{self._name} shows of no text what an encoder makes of it")
        return self.model.encoder

    def _inspected(self, what: str) -> RemoteResponse:
        if not self.server.can_inspect:
            raise RemoteError(f"{self._name} does not tell {what}")
        if self.held is None:
            if self.model.encoder is not None:
                raise RemoteError(f"{self._name} has read no text: encode one first")
            raise RemoteError(f"{self._name} keeps no answer of this chat: ask something first")
        return self.held

    def _inspect(self, handle: Handle, command: Generate, answer: RemoteAnswer) -> None:
        """Emit what tokens the answer and its prompt really are, if the server says it."""
        self.held = None
        if not self.server.can_inspect or not answer.response:
            return
        try:
            held = self.inspection.held(answer.response, Exchange(), _LOOK_SECONDS)
        except LlmLiteError as error:
            self._log("info", f"the answer cannot be looked into: {error}")
            return
        index = len(command.messages) - command.continue_last
        tokens = held.as_prompt(command.messages[:index], index)
        handle.emit(CacheRewritten(tokens, ()))
        self.held = held

    @property
    def _name(self) -> str:
        return f"{self.server.title} at {self.server.host}"

    def _log(self, level: Level, text: str) -> None:
        self._emit(Logged(level, text, time.time()))


def model_info(server: RemoteServer, model: RemoteModel) -> ModelInfo:
    """Return what is known of the model; 0 stands for what the server does not tell."""
    return ModelInfo(
        name=model.title,
        path=Address(server.address).model_path(model.name),
        architecture=model.architecture,
        parameters=model.parameters,
        file_bytes=model.file_bytes,
        weight_bytes=0,
        kv_bytes=0,
        context=model.context,
        trained_context=model.trained_context,
        vocabulary=model.vocabulary,
        layers=model.layers,
        recurrent_layers=model.recurrent_layers,
        heads=model.heads,
        kv_heads=model.kv_heads,
        head_dim=model.head_dim,
        width=model.width,
        feed_forward=0,
        cache=CacheLayout(model.cache_layers),
        has_chat_template=model.encoder is None,
        encoder=model.encoder,
        switches_thinking=server.switches_thinking and model.switches_thinking,
        tool_style="tags" if model.calls_functions else "",
    )


def executor_info(server: RemoteServer, model: RemoteModel) -> ExecutorInfo:
    return ExecutorInfo(
        backend="remote",
        device=f"{server.title} at {server.host}",
        reason="",
        mode="as-stored",
        activations="a32",
        keys="fp16",
        values="fp16",
        threads=0,
    )
