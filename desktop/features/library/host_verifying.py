"""Whether a model's files are what they were: against the hub's hashes where it came from one, else
against what the files say of themselves."""

from __future__ import annotations

from collections.abc import Callable

from llm_lite.core.errors import CancelledError, FileError
from llm_lite.core.hub.remote.checking import from_hub, verify
from llm_lite.core.loading.file_check import verify_model
from llm_lite.core.messages.library import LocalModel
from llm_lite.desktop.language.translate import tr, trn
from llm_lite.desktop.language.units import size


def verified(model: LocalModel, stop: Callable[[], bool]) -> str:
    """A sentence. FileError with the first thing that is wrong."""
    if from_hub(model):
        compared = verify(model, stop=stop)
        _refuse(model, compared.findings)
        words = tr("Every byte is as on the hub: {size} compared by {files}.")
        files = trn("the hash of {n} file", "the hashes of {n} files", compared.compared)
        files = files.format(n=compared.compared)
        return words.format(size=size(compared.nbytes), files=files)

    def progress(part: float) -> None:
        if stop():
            raise CancelledError("stopped")

    verdict = verify_model(str(model.path), progress)
    _refuse(model, verdict.findings)
    if verdict.checksums:
        words = tr("The files are sound: {size} read, {n:,} checksums compared.")
        return words.format(size=size(verdict.nbytes), n=verdict.checksums)
    words = tr("The files are sound: {size} read. They have no checksums to compare.")
    return words.format(size=size(verdict.nbytes))


def _refuse(model: LocalModel, findings: list[str] | tuple[str, ...]) -> None:
    if not findings:
        return
    more = len(findings) - 1
    words = findings[0]
    if more:
        words += " " + trn("And {n} finding more.", "And {n} findings more.", more).format(n=more)
    raise FileError(model.path, words.removeprefix(f"{model.path}: "))
