"""A tool server in plain JSON-RPC, which can also misbehave: its first argument says how."""

import json
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


def answer(message):
    method, params = message["method"], message.get("params", {})
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


def main():
    if HOW == "hang":
        time.sleep(60)
    if HOW == "exit":
        sys.stderr.write("no configuration\n")
        sys.exit(2)
    while HOW == "stray":
        print("hello, this is no message")
    while HOW == "flood":
        sys.stderr.write("noise\n" * 1000)
        say({"method": "notifications/message", "params": {"level": "info", "data": "x" * 50_000}})
    if HOW == "family":  # a child that outlives a polite end
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        sys.stderr.write(f"child {child.pid}\n")
        sys.stderr.flush()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            say({"id": message["id"], "result": answer(message)})


main()
