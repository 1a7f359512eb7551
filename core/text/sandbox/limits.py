"""The limits of one request, and how the system enforces them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from msgspec import Struct

try:
    import resource
except ImportError:  # Windows: there only the program's clock ends a request
    resource = None  # type: ignore[assignment]

_UNKNOWN_SIZE = 1 << 30  # bytes of addresses in use, where the system does not report it


class Limits(Struct, frozen=True):
    cpu_seconds: float  # of all its threads: what ends an endless loop
    wall_seconds: float  # of a process that hangs; generous, as a busy machine is slow
    memory_bytes: int  # beyond what the process has before


def confine() -> None:
    """Confine the process once, when it begins: it writes no file and leaves no core dump."""
    if resource is None:
        return
    for name in ("RLIMIT_CORE", "RLIMIT_FSIZE"):
        resource.setrlimit(getattr(resource, name), (0, 0))


def allow_memory(more_bytes: int) -> None:
    """Limit the process for good to the memory that it has now, and `more_bytes` of addresses."""
    if resource is not None:
        _lower_addresses(_address_space() + more_bytes)


def allow_stack(size_bytes: int) -> None:
    """Limit the stack of the main thread for good: a recursion that goes deeper ends the process by
    SIGSEGV."""
    if resource is None:
        return
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    soft = size_bytes if hard == resource.RLIM_INFINITY else min(size_bytes, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))


@contextmanager
def limited(limits: Limits) -> Iterator[None]:
    """Limit a request: more processor time ends the process by SIGPROF; more memory is not
    given."""
    if resource is None:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    _lower_addresses(_address_space() + limits.memory_bytes)
    signal.setitimer(signal.ITIMER_PROF, limits.cpu_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, before)


def _lower_addresses(most: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bounds = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    with suppress(ValueError, OSError):  # macOS may refuse such a limit
        resource.setrlimit(resource.RLIMIT_AS, (min([most, *bounds]), hard))


def _address_space() -> int:
    """Return the bytes of addresses that this process uses.

    Read by hand: psutil would be imported for this number only, and the process be ready later.
    """
    try:
        with open("/proc/self/statm") as statm:  # noqa: PTH123
            return int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return _UNKNOWN_SIZE
