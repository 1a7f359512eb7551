"""How many instructions this thread runs in a call: the hardware's counter, else single steps.

A counter of events needs a processor, a kernel and rights that many machines for tests lack; a
process that is traced one instruction at a time is slow (some microseconds each) but tells the
same number anywhere on Linux.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
import sys
from collections.abc import Callable

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}  # system call numbers
_ENABLE, _DISABLE = 0x2400, 0x2401  # linux/perf_event.h
_TRACEME, _SINGLESTEP, _DETACH = 0, 9, 17  # sys/ptrace.h
_MARK = signal.SIGUSR1
WARM_UP = 20  # calls, after which Python has specialized the code around the kernels


class CannotCountError(Exception):
    """The reason, in a sentence."""


def count(call: Callable[[], object]) -> int:
    """User instructions of one call on this thread alone. CannotCountError where nothing counts."""
    if sys.platform != "linux":
        raise CannotCountError("instructions are counted on Linux only")
    for _ in range(WARM_UP):
        call()
    try:
        return _count_events(call)
    except OSError:
        return _count_steps(call)


def _count_events(call: Callable[[], object]) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = bytearray(128)
    # type hardware, size, config: instructions; disabled, without kernel and hypervisor
    struct.pack_into("<IIQ", attributes, 0, 0, len(attributes), 1)
    struct.pack_into("<Q", attributes, 40, 1 << 0 | 1 << 5 | 1 << 6)
    buffer = (ctypes.c_char * len(attributes)).from_buffer(attributes)
    number = _PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        raise OSError("no system call number is known")
    file = libc.syscall(number, buffer, 0, -1, -1, 0)
    if file < 0:
        raise OSError(ctypes.get_errno(), "perf_event_open")
    try:
        libc.ioctl(file, _ENABLE, 0)
        call()
        libc.ioctl(file, _DISABLE, 0)
        return int(struct.unpack("<Q", os.read(file, 8))[0])
    finally:
        os.close(file)


def _count_steps(call: Callable[[], object]) -> int:
    """Count in a child that marks the beginning and the end of the call with a signal to itself."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})  # waking another core for each step takes far longer
    try:
        return _count_steps_of_child(libc, call)
    finally:
        os.sched_setaffinity(0, allowed)


def _count_steps_of_child(libc: ctypes.CDLL, call: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        if libc.ptrace(_TRACEME, 0, None, None) < 0:
            os._exit(1)
        os.kill(os.getpid(), _MARK)
        call()
        os.kill(os.getpid(), _MARK)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if not os.WIFSTOPPED(status):
        raise CannotCountError("the system lets no process trace another")
    steps = 0
    wait, ptrace = os.waitpid, libc.ptrace
    while True:
        if ptrace(_SINGLESTEP, child, None, None) < 0:
            raise CannotCountError("a traced process cannot be stepped here")
        status = wait(child, 0)[1]
        if not os.WIFSTOPPED(status) or os.WSTOPSIG(status) == _MARK:
            break
        steps += 1
    ptrace(_DETACH, child, None, None)
    if os.WIFSTOPPED(status):
        wait(child, 0)
    return steps
