"""The family of errors that a user may meet.

Every error carries one clear sentence; the command line and the window show it as it is.
Anything else that is raised is a defect of the program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_lite.core.plain_text import one_line

if TYPE_CHECKING:
    from llm_lite.core.messages.library import Fit


class LlmLiteError(Exception):
    """Base of all expected errors: its text is a sentence for the user, fit for a terminal."""

    def __init__(self, sentence: str = "") -> None:
        super().__init__(one_line(sentence))


class FileError(LlmLiteError):
    """A file cannot be used: the text names the file, the field or tensor, expected and found."""

    def __init__(self, path: object, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = str(path)
        self.problem = problem


class FileChangedError(FileError):
    """A file is no longer what was mapped: what was made of it must not be used."""


class UnsupportedError(LlmLiteError):
    """The input is well formed but the program does not know this architecture or format."""


class RequestError(LlmLiteError):
    """A request cannot be served as asked: prompt too long, invalid option, unknown model name."""


class TooLongError(RequestError):
    """A prompt does not fit into the context. `tokens`: about how many it has; 0: not known."""

    def __init__(self, sentence: str, tokens: int = 0) -> None:
        super().__init__(sentence)
        self.tokens = tokens


class BusyError(RequestError):
    """Raised when the queue of requests is full; `seconds` says when to ask again."""

    def __init__(self, sentence: str, seconds: float) -> None:
        super().__init__(sentence)
        self.seconds = seconds


class UnavailableError(RequestError):
    """Raised where no model answers at the moment; `seconds` says when to ask again."""

    def __init__(self, sentence: str, seconds: float = 5.0) -> None:
        super().__init__(sentence)
        self.seconds = seconds


class GoneError(RequestError):
    """Raised for something that is no longer kept: the text says what, and how long it is kept."""


class NotFiniteError(LlmLiteError):
    """A model's values overflow: the text says which, and in what arithmetic."""


class OutOfMemoryError(RequestError):
    """The machine has not enough memory for the request: the text says what would fit."""


class DoesNotFitError(OutOfMemoryError):
    """A model would take more memory than there is. `fit` says how much of what, `others` what
    would fit; with the option `force` it is loaded all the same."""

    def __init__(self, sentence: str, fit: Fit, others: tuple[Fit, ...]) -> None:
        super().__init__(sentence)
        self.fit = fit
        self.others = others


class DeviceError(LlmLiteError):
    """No usable device, or a device call failed for good."""


class DeviceLostError(DeviceError):
    """The device was lost (reset, unplugged, watchdog): work moves to the C++ executor."""


class UnfitModelError(DeviceError):
    """The device works, but its kernels cannot run the model: the text says which part of it."""


class AcceleratorError(DeviceError):
    """An executor from outside failed: the text names it, and work moves to the C++ executor."""


class OutOfDeviceMemoryError(DeviceError):
    """The device has not enough memory for the request."""


class CancelledError(LlmLiteError):
    """The user cancelled the work; not a failure."""
