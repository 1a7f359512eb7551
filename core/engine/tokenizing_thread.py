"""Texts are cut by a thread of its own: neither the model nor the window waits, nor do they hold
it up."""

from __future__ import annotations

import threading
from collections import OrderedDict

from llm_lite.core.engine.prompt_stages import prompt_stages
from llm_lite.core.errors import LlmLiteError, RequestError
from llm_lite.core.handles import SUPERSEDED, Handle
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.loading.tokenizers import NamedTokenizer, name_of, open_tokenizer
from llm_lite.core.messages.inspecting.tokenizing import TextTokenized, TokenizedText, TokenizeText

_KEPT = 2  # tokenizers of other models
NO_TOKENIZER = "no model is loaded, and no tokenizer is chosen"


class Tokenizing:
    """Tokenizes texts on a thread of its own. `submit` is for any thread. Of requests that wait,
    the last of a slot is answered."""

    def __init__(self) -> None:
        # By slot.
        self._waiting: OrderedDict[int, tuple[Handle, TokenizeText, ModelFile | None]]
        self._waiting = OrderedDict()
        self._lock = threading.Lock()
        self._is_running = False
        self._opened: OrderedDict[str, NamedTokenizer] = OrderedDict()  # the thread's own

    def submit(self, handle: Handle, request: TokenizeText, file: ModelFile | None) -> None:
        """Tokenize a text and finish the handle. `file` is the model in use."""
        with self._lock:
            if request.slot in self._waiting:
                self._waiting[request.slot][0].end(SUPERSEDED, unwanted=True)
            self._waiting[request.slot] = (handle, request, file)
            if self._is_running:
                return
            self._is_running = True
        threading.Thread(target=self._work, name="tokenization", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_running = False
                    return
                _, (handle, request, file) = self._waiting.popitem(last=False)
            try:
                handle.finish(self._tokenized(request, file))
            except LlmLiteError as error:
                problem = str(error)
            except Exception as error:  # a defect costs this request only
                problem = f"the text could not be cut: {error!r}"
            else:
                continue
            self._opened.pop(request.source, None)  # it may have changed
            handle.end(problem)

    def _tokenized(self, request: TokenizeText, file: ModelFile | None) -> TextTokenized:
        source = self._source(request, file)
        result = _stages(request, source, file)
        return TextTokenized(result, tuple(source.count(sample) for sample in request.samples))

    def _source(self, request: TokenizeText, file: ModelFile | None) -> NamedTokenizer:
        if not request.source:
            if file is None:
                raise RequestError(NO_TOKENIZER)
            return NamedTokenizer(name_of(file.path), file.tokenizer)
        found = self._opened.pop(request.source, None) or open_tokenizer(request.source)
        self._opened[request.source] = found
        if len(self._opened) > _KEPT:
            self._opened.popitem(last=False)
        return found


def _stages(request: TokenizeText, source: NamedTokenizer, file: ModelFile | None) -> TokenizedText:
    if request.messages is None or file is None:
        return source.stages(request.text, request.control)
    thinking, tools, values = request.thinking, request.tools, request.values
    return prompt_stages(file, source.name, request.messages, thinking, tools, values)
