"""What tool servers write: messages among prints, and results of every kind of block.

The blocks are those of the protocol's specification, 2025-11-25, server/tools, "Tool Result".
"""

import base64
import json

import pytest

from llm_lite.core.tools.received import MOST_TRIES, MessageReader, block_text, result_of

PING = {"jsonrpc": "2.0", "id": 1, "result": {}}
LINE = json.dumps(PING)
CODE = 'fn main() {\n    println!("Hello world!");\n}'
BLOCKS = {
    "text": ({"type": "text", "text": "Tool result text"}, "Tool result text"),
    "image": (
        {"type": "image", "data": base64.b64encode(b"x" * 1000).decode(), "mimeType": "image/png",
         "annotations": {"audience": ["user"], "priority": 0.9}},
        "[image, image/png, 1,000 bytes]",
    ),
    "audio": (
        {"type": "audio", "data": base64.b64encode(b"12345").decode(), "mimeType": "audio/wav"},
        "[audio, audio/wav, 5 bytes]",
    ),
    "link": (
        {"type": "resource_link", "uri": "file:///project/src/main.rs", "name": "main.rs",
         "description": "Primary application entry point", "mimeType": "text/x-rust",
         "size": 1234},
        "[resource, file:///project/src/main.rs, main.rs, Primary application entry point, "
        "text/x-rust, 1,234 bytes]",
    ),
    "embedded": (
        {"type": "resource", "resource": {"uri": "file:///project/src/main.rs",
                                          "mimeType": "text/x-rust", "text": CODE}},
        f"[resource, file:///project/src/main.rs, text/x-rust]\n{CODE}",
    ),
    "bytes": (
        {"type": "resource", "resource": {"uri": "file:///a.pdf", "mimeType": "application/pdf",
                                          "blob": base64.b64encode(b"1234").decode()}},
        "[resource, file:///a.pdf, application/pdf, 4 bytes]",
    ),
    "a text in bytes": (
        {"type": "resource", "resource": {"uri": "file:///a.csv", "mimeType": "text/csv",
                                          "blob": base64.b64encode("a;β".encode()).decode()}},
        "[resource, file:///a.csv, text/csv]\na;β",
    ),
    "of no known kind": (
        {"type": "hologram", "depth": 3}, '{\n  "type": "hologram",\n  "depth": 3\n}'
    ),
    "a bare text": ("12 degrees", "12 degrees"),
    "a number": (12, "12"),
    "nothing": (None, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_reaches_the_model(name):
    block, text = BLOCKS[name]
    assert block_text(block) == text


STRUCTURED = {"temperature": 22.5, "conditions": "Partly cloudy", "humidity": 65}
SHOWN = json.dumps(STRUCTURED, indent=2)
RESULTS = {
    "structured, and the same as a text": (
        {"content": [{"type": "text", "text": json.dumps(STRUCTURED)}],
         "structuredContent": STRUCTURED},
        json.dumps(STRUCTURED), False,
    ),
    "structured, with a summary": (
        {"content": [{"type": "text", "text": "Found 1 place."}], "structuredContent": STRUCTURED},
        f"Found 1 place.\n{SHOWN}", False,
    ),
    "structured alone": ({"structuredContent": STRUCTURED}, SHOWN, False),
    "a wrapped value": (
        {"content": [{"type": "text", "text": "7"}], "structuredContent": {"result": 7}},
        "7", False,
    ),
    "an error": (
        {"content": [{"type": "text", "text": "Invalid departure date"}], "isError": True},
        "Invalid departure date", True,
    ),
    "a block alone": ({"content": {"type": "text", "text": "one"}}, "one", False),
    "a text alone": ({"content": "one"}, "one", False),
    "of the first version": ({"toolResult": "one"}, "one", False),
    "nothing": ({}, "", False),
    "half a character": ({"content": [{"type": "text", "text": "a\ud800b"}]}, "a\ufffdb", False),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_reaches_the_model(name):
    found, text, failed = RESULTS[name]
    assert result_of(found) == (text, failed)


LINES = {
    "a print before it": (["Starting... " + LINE], [PING], ["Starting... "]),
    "a print behind it": ([LINE + " done"], [PING], ["done"]),
    "two in a line": ([LINE + LINE], [PING, PING], []),
    "a batch": ([f"[{LINE}, {LINE}]"], [PING, PING], []),
    "colours": ([f"\x1b[0m{LINE}\x1b[K"], [PING], []),
    "a mark of byte order": ([f"\ufeff{LINE}"], [PING], []),
    "several lines": (json.dumps(PING, indent=2).split("\n"), [PING], []),
    "a message in a message that never ends": (["{", '  "a": 1,', LINE], [PING], ['{\n  "a": 1,']),
    "no version": (['{"id": 1, "result": {}}'], [PING], []),
    "an error beside a result": (['{"id": 1, "result": {}, "error": null}'], [PING], []),
    "an error of words": (
        ['{"id": 1, "result": null, "error": "no"}'],
        [{"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "no"}}],
        [],
    ),
    "no result": (['{"jsonrpc": "2.0", "id": 1, "result": null}'], [PING], []),
    "JSON of another kind": (['{"level": 1}', "[1]", "3"], [], ['{"level": 1}', "[1]", "3"]),
    "JSON of another kind before it": (['{"level": 1} []' + LINE], [PING], ['{"level": 1}', "[]"]),
    "a batch with another kind": ([f"[1, {LINE}, []]"], [PING], [f"[1, {LINE}, []]"]),
    "blank lines": (["", "  ", "\r"], [], []),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_lines_of_servers(name):
    written, expected, stray = LINES[name]
    passed_over = []
    reader = MessageReader(passed_over.append)
    found = [one for line in written for one in reader.read(line.encode() + b"\n")]
    assert found == expected and passed_over == stray


def test_lines_that_never_become_a_message_cost_a_bounded_search():
    passed_over = []
    reader = MessageReader(passed_over.append)
    assert list(reader.read(b'{"jsonrpc" ' * 100_000)) == [] and len(passed_over) <= MOST_TRIES
    for values in (b"[]", b"{}", b"[1] ", b'{"id":1}'):
        passed_over.clear()
        assert list(reader.read(values * 100_000)) == [] and len(passed_over) <= MOST_TRIES + 1
        assert sum(map(len, passed_over)) <= len(values) * 100_000
    assert list(reader.read(b"[]" * (MOST_TRIES - 1) + LINE.encode())) == [PING]
    assert list(reader.read(LINE.encode() * 1000)) == [PING] * 1000
    for line in [b"{\n", *[b"}\n"] * 1000]:
        assert list(reader.read(line)) == []
    assert list(reader.read(LINE.encode())) == [PING]
