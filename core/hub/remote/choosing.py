"""The choice of a file of a repository: the one that a person means, or else a recommended one."""

from __future__ import annotations

from collections.abc import Sequence

from llm_lite.core.hub.remote.access import headers
from llm_lite.core.hub.remote.failures import HubError, gated
from llm_lite.core.hub.remote.files import usable_path
from llm_lite.core.hub.remote.repositories import Repository, model_of
from llm_lite.core.messages.library import HubFile, HubModel
from llm_lite.core.plain_text import quote

# Least loss for the size first, as perplexities of these formats go.
_PREFERRED = ("Q4_K_M", "Q4_K_S", "Q4_1", "Q4_0", "Q5_K_M", "IQ4_NL", "IQ4_XS", "Q6_K", "Q8_0")
_MOST_NAMED = 8


def chosen(found: Repository, wanted: str = "") -> HubFile:
    """Return the file that `wanted` means. HubError names the alternatives."""
    if wanted and not usable_path(wanted):
        raise HubError(
            f"{quote(wanted)} is no name of a file that is taken from a hub: expected a plain "
            "relative path"
        )
    model = model_of(found)
    if not model.files and model.gated:
        raise HubError(gated(found.hub.name, found.repo, "authorization" in headers()))
    if not model.files:
        raise HubError(f"{found.repo}: {model.problem}{_left_out(found)}")
    if not wanted:
        return recommended(model.files) or _refuse(model)
    exact = [file for file in model.files if wanted in file.parts]
    by_format = [file for file in model.files if file.format.lower() == wanted.lower()]
    partly = [file for file in model.files if wanted.lower() in file.name.lower()]
    for matches in (exact, by_format, partly):
        if len(matches) == 1:
            return matches[0]
        if len(matches) > 1:
            raise HubError(
                f"{quote(wanted)} is part of several files of {found.repo}: {_names(matches)}"
            )
    raise HubError(
        f"{found.repo} has no model file {quote(wanted)}; there are: {_names(model.files)}"
        f"{_left_out(found)}"
    )


def recommended(files: Sequence[HubFile]) -> HubFile | None:
    """Return the best of the files that run here: a GGUF of about 4 bits, else the smallest GGUF,
    else a checkpoint."""
    fit = [file for file in files if not file.problem]
    ggufs = sorted((file for file in fit if file.form == "gguf"), key=lambda file: file.size)
    for form in _PREFERRED:
        for file in ggufs:
            if file.format == form:
                return file
    return next(iter(ggufs or fit), None)


def _refuse(model: HubModel) -> HubFile:
    """Raise the reason why no file runs here; one of the whole model counts more than one of a
    file."""
    first = model.files[0]
    problem = model.problem or f"{quote(first.name)}: {first.problem}"
    raise HubError(f"{model.repo}: no file runs here: {problem}")


def _names(files: Sequence[HubFile]) -> str:
    more = len(files) - _MOST_NAMED
    named = ", ".join(quote(file.name) for file in files[:_MOST_NAMED])
    return f"{named} and {more} more" if more > 0 else named


def _left_out(found: Repository) -> str:
    count = len(found.left_out)
    if count == 0:
        return ""
    return f"; left out {'is' if count == 1 else f'are {count} files, such as'} {found.left_out[0]}"
