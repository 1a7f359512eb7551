"""Numbers of conversations and messages, which two processes can give out at once."""

from __future__ import annotations

import secrets
import threading
import time

_EPOCH = 1_735_689_600  # seconds since 1970, at the beginning of 2025
_LOW = 32  # bits below the seconds; 31 above last until 2093
_STEP = 24  # bits of a step over a number of another process

_lock = threading.Lock()
_last = 0


def new_id(above: int = 0) -> int:
    """Return a number of 63 bits, larger than all before it in this process, and than `above`.

    Its upper bits are the seconds since 2025, so that what belongs together lies together in the
    file and the newest messages are found first. The lower begin at random, which two processes
    share in one second of two thousand million, and count on from there.
    """
    global _last
    with _lock:
        seconds = max(0, int(time.time()) - _EPOCH) & 0x7FFF_FFFF
        if seconds > _last >> _LOW:
            _last = seconds << _LOW | secrets.randbits(_LOW - 1)  # half is left to count on
        else:
            _last += 1
        if _last <= above:  # of another process, whose clock or whose beginning is ahead
            _last = above + 1 + secrets.randbits(_STEP)
        return _last
