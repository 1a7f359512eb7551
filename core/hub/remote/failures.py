"""The failures of a hub or of the way to it, a sentence each."""

from __future__ import annotations

import re

from llm_lite.core.errors import RequestError
from llm_lite.core.plain_text import quote, shortened

_LONGEST = 300  # characters of a server's sentence
_ERRNO = re.compile(r"^\[(?:Errno|WinError) -?\d+\] ")
_NO_NAME = (  # what Linux, macOS and Windows say of a name that nobody knows, in lower case
    "name or service not known",
    "temporary failure in name resolution",
    "no address associated with hostname",
    "nodename nor servname provided",
    "getaddrinfo failed",
)
TOKENS = "https://huggingface.co/settings/tokens"


class HubError(RequestError):
    """Raised if the hub cannot give what was requested."""


class HubStatusError(HubError):
    """An answer with a status of HTTP other than success."""

    def __init__(
        self, status: int, sentence: str, wait: float | None = None, code: str = ""
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code  # the hub's own word
        self.wait = wait  # seconds, as the hub asks


class HubUnreachableError(HubError):
    """Raised if the hub sent no answer, or one that broke off."""


class HubOfflineError(HubError):
    """Raised if a person has forbidden the use of the network."""


def unreachable(origin: str, error: Exception) -> str:
    reason = _ERRNO.sub("", str(error).strip()) or type(error).__name__
    if any(words in reason.lower() for words in _NO_NAME):
        return (
            f"{origin} cannot be reached: its name was not found. Is this machine offline? Else "
            "look at HF_ENDPOINT and the proxies"
        )
    return (
        f"{origin} cannot be reached ({quote(shortened(reason, _LONGEST))}): look at the "
        "connection, HF_ENDPOINT and the proxies"
    )


def refusal(
    status: int, code: str, message: str, *, endpoint: str, repo: str, file: str, signed: bool
) -> str:
    """Return a sentence for an error of the hub. code, message: X-Error-Code and
    X-Error-Message."""
    quoted = f" ({quote(shortened(message, _LONGEST))})" if message else ""
    what = f"file {quote(file)} of {repo}" if file else repo
    if code == "GatedRepo":
        return gated(endpoint, repo, signed)
    if code == "RevisionNotFound":
        return f"{repo} has no such revision at {endpoint}{quoted}"
    if code == "EntryNotFound":
        return f"{what} is not at {endpoint}: the repository has no such file"
    if code == "RepoNotFound" or (status in (401, 404) and repo):
        private = (
            "or your token may not see it"
            if signed
            else "or it is private and needs HF_TOKEN, a token of yours"
        )
        whole = "" if "/" in repo else "; a repository is called OWNER/NAME"
        return f"there is no repository {repo} at {endpoint}, {private}{whole}"
    if status == 401:
        return f"{endpoint} does not take the token in HF_TOKEN{quoted}: make one at {TOKENS}"
    if status == 403:
        return f"{endpoint} refuses {what or 'this'}{quoted}: the token in HF_TOKEN lacks the right"
    if status == 429:
        return f"{endpoint} takes no more requests from here for now{quoted}: try again later"
    if status >= 500:
        return f"{endpoint} fails with status {status}{quoted}: try again later"
    return f"{endpoint} answers with status {status}{quoted} instead of {what or 'a list'}"


def gated(endpoint: str, repo: str, signed: bool) -> str:
    page = f"{endpoint}/{repo}"
    if signed:
        return (
            f"{repo} is gated and the account of your token has no access yet: ask for it at "
            f"{page}, and give the token in HF_TOKEN the right to read gated repositories"
        )
    return (
        f"{repo} is gated: accept its conditions at {page}, make a token at {TOKENS} and set the "
        "environment variable HF_TOKEN to it"
    )
