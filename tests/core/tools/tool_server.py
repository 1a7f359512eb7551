"""A tool server in plain JSON-RPC, which can also misbehave: its first argument says how."""

import json
import os
import signal
import subprocess
import sys
import time

HOW = sys.argv[1] if len(sys.argv) > 1 else "well"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [
    {"name": "weather", "description": "The weather in a city.", "inputSchema": CITY},
    {"name": "sleep", "description": "Waits.", "inputSchema": {"type": "object"}},
    {"name": "die", "description": "Ends the server.", "inputSchema": {"type": "object"}},
    {"name": "flood", "description": "Writes without end.", "inputSchema": {"type": "object"}},
    {"name": "long", "description": "Says much.", "inputSchema": {"type": "object"}},
    {"name": "fail", "description": "Fails.", "inputSchema": {"type": "object"}},
    {"name": "bad name!", "description": "Cannot be offered.", "inputSchema": {"type": "object"}},
]


BLOCKS = {
    "content": [
        {"type": "text", "text": "Tide tables"},
        {"type": "hologram", "depth": 3},
        {"type": "text"},
        {"type": "resource_link", "uri": "file:///tide.csv", "name": "tide.csv"},
    ],
    "structuredContent": {"high": "04:12"},
    "isError": False,
}


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(words, failed=False):
    return {"content": [{"type": "text", "text": words}], "isError": failed}


def call(name, arguments):
    if name == "sleep":
        time.sleep(60)
    if name == "die":
        sys.stderr.write("out of cheese\n")
        sys.stderr.flush()
        sys.exit(3)
    while name == "flood":
        sys.stdout.write("y" * 100_000)
    if name == "long":
        return text("z" * 200_000)
    if name == "fail":
        return text("no such city", failed=True)
    return text(f"12 degrees in {arguments.get('city')}")


PAGES = {None: (TOOLS[:1], "b"), "b": (TOOLS[1:2], "c"), "c": (TOOLS[5:6], None)}


def page(cursor):
    """The tools of a page; "circle" comes to the same again, "torn" has no third one."""
    tools, after = PAGES[cursor]
    if HOW == "torn" and cursor == "c":
        return {"tools": "none"}
    return {"tools": tools, "nextCursor": "b" if HOW == "circle" else after}


def answer(message):
    method, params = message["method"], message.get("params", {})
    if method == "tools/list" and HOW in ("pages", "circle", "torn"):
        return page(params.get("cursor"))
    if method == "tools/call" and HOW == "changes":
        TOOLS.append({**TOOLS[0], "name": "tide"})
        for _ in range(3):
            say({"method": "notifications/tools/list_changed"})
    if method == "tools/call" and params["name"] == "blocks":
        return BLOCKS
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "test", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params["name"], params.get("arguments", {}))
    return {}


def leave(how):
    """A descendant that hides from its group and its parent, or from whoever looks it up."""
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    sys.stderr.write(f"child {os.getpid()}\n")
    sys.stderr.flush()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    end = time.monotonic() + 1200
    while time.monotonic() < end:
        if how == "hydra" and os.fork():
            os._exit(0)
        time.sleep(0.002 if how == "hydra" else 1)
    os._exit(0)


def main():
    if HOW in ("daemon", "hydra"):
        leave(HOW)
    if HOW == "orphans":  # it ends by itself, and its descendants do not
        leave(HOW)
        time.sleep(0.5)
        sys.exit(4)
    while HOW == "loud":  # its messages are few
        sys.stderr.write("noise\n" * 1000)
    if HOW == "hang":
        time.sleep(60)
    if HOW == "exit":
        sys.stderr.write("no configuration\n")
        sys.exit(2)
    while HOW == "stray":
        print("hello, this is no message")
    while HOW == "blank":
        sys.stdout.write("\n" * 100_000)
    while HOW == "flood":
        sys.stderr.write("noise\n" * 1000)
        say({"method": "notifications/message", "params": {"level": "info", "data": "x" * 50_000}})
    if HOW == "odd":
        TOOLS[0]["inputSchema"] = {"type": "object", "properties": {"a": {"maximum": 1e999}}}
        TOOLS[1]["inputSchema"] = {"type": "object", "properties": {"a": {"maximum": float("nan")}}}
    if HOW == "family":  # a child that outlives a polite end
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        sys.stderr.write(f"child {child.pid}\n")
        sys.stderr.flush()
    if HOW == "broken tools":
        TOOLS[:0] = ["weather", None, {}, {"name": 3}, {"name": "a", "inputSchema": []}]
        TOOLS[:0] = [{"name": "b", "inputSchema": {"type": "string"}}]
        TOOLS[:0] = [{"name": "c", "description": [1], "inputSchema": {"type": "object"}}]
        nested = {"coin": {"type": "string"}, "required": ["coin"]}
        TOOLS.append({"name": "d", "inputSchema": {"type": "object", "properties": nested}})
        TOOLS.append({"name": "blocks", "title": 3, "annotations": "x", "outputSchema": 4})
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            say({"id": message["id"], "result": answer(message)})


main()
