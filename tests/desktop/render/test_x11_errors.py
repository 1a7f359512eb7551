"""What the X server refuses, as the program is told of it."""

import ctypes
import sys

import pytest

from llm_lite.desktop.render.x11_errors import BAD_WINDOW, ErrorEvent, ErrorHandler

BAD_MATCH, BAD_ACCESS = 8, 10  # X.h


@pytest.mark.skipif(sys.platform != "linux", reason="of Xlib")
def test_each_error_is_told_once_and_windows_that_are_gone_never():
    told = []
    handler = ErrorHandler(told.append)
    try:
        for code in (BAD_WINDOW, BAD_ACCESS, BAD_ACCESS, BAD_MATCH, BAD_ACCESS):
            event = ErrorEvent(code=code, request=130, minor=1)
            assert handler._held(None, ctypes.byref(event)) == 0
    finally:
        handler.close()
    refused = "The X server refused request 130.1 of this program: error {}."
    assert told == [refused.format(BAD_ACCESS), refused.format(BAD_MATCH)]
