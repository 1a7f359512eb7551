"""A drag whose source ends before the window has answered, in a process of its own: Xlib ends that.
Run by test_window.py."""

import os

import glfw

from llm_lite.desktop.render.window import Geometry, Window
from tests.desktop import x11, xdnd


def main(arguments):
    (display,) = arguments
    os.environ["DISPLAY"] = display  # the server of children may have begun without
    window = Window("llm-lite test", Geometry(700, 500))
    glfw.show_window(window.handle)
    window.poll_events()
    with x11._connection(display) as (lib, own):
        drag = xdnd._Drag(lib, own, glfw.get_x11_window(window.handle), "file", 0.0)
        drag.over((400, 300))
    moves = 0
    while moves < 100:  # events, and questions that the server has to answer
        window.poll_events()
        glfw.get_window_pos(window.handle)
        moves += 1
    window.close()
    print(moves)
