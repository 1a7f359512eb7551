"""States of llama.cpp that are made longer, so that both begin far into a context."""

from __future__ import annotations

import importlib
import struct
import sys
import types

import numpy as np
import pytest

from tests.paths import ROOT


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The peer's worker, without the library that it drives."""
    monkeypatch.setitem(sys.modules, "llama_cpp", types.ModuleType("llama_cpp"))
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "bench"))
    yield importlib.import_module("llama_cpp_depth")
    for name in ("llama_cpp_depth", "llama_cpp_worker"):
        sys.modules.pop(name, None)


def test_a_state_of_llama_cpp_becomes_longer(peer: types.ModuleType) -> None:
    cells, layers, row = 3, 2, 5
    head = struct.pack("<4I", 99, 0, 1, cells)
    head += b"".join(struct.pack("<3i", i, 1, 0) for i in range(cells))
    head += struct.pack("<2I", 0, layers)
    rows = np.arange(2 * layers * cells * row, dtype=np.uint8).reshape(2 * layers, cells, row)
    body = b"".join(struct.pack("<iQ", 8, row) + part.tobytes() for part in rows)
    state = np.frombuffer(head + body, np.uint8)
    longer = peer.longer_state(state, cells, 7, layers)
    assert struct.unpack_from("<4I", longer) == (99, 0, 1, 7)
    assert struct.unpack_from("<3i", longer, 16 + 12 * 6) == (6, 1, 0)
    assert peer.longer_state(state, cells, cells, layers).tobytes() == state.tobytes()
    first = longer[16 + 12 * 7 + 8 + 12 :][: 7 * row].reshape(7, row)
    assert (first == rows[0][[0, 1, 2, 0, 1, 2, 0]]).all()
    turned = rows[layers:].transpose(0, 2, 1)  # of values: [layers, columns, cells]
    body = b"".join(struct.pack("<iQ", 8, row) + part.tobytes() for part in rows[:layers])
    body += b"".join(struct.pack("<i2I", 8, 1, row) + part.tobytes() for part in turned)
    state = np.frombuffer(head[:-8] + struct.pack("<2I", 1, layers) + body, np.uint8)
    longer = peer.longer_state(state, cells, 7, layers)
    last = longer[-7 * row :].reshape(row, 7)
    assert (last == turned[-1][:, [0, 1, 2, 0, 1, 2, 0]]).all()
    with pytest.raises(ValueError, match="expected"):
        peer.longer_state(state, cells, 7, layers + 1)
