"""A tool server as people write them by hand: it prints, and its messages are almost JSON-RPC."""

import json
import os
import sys

out = os.fdopen(1, "wb", buffering=0, closefd=False)


def write(text):
    out.write(text.encode())


def respond(number, result):
    """Each answer in another form."""
    message = {"jsonrpc": "2.0", "id": number, "result": result}
    form = respond.forms.pop(0) if respond.forms else "plain"
    if form == "bare":  # without a version, with null for an error, the id as a text, CR LF
        write(json.dumps({"id": str(number), "result": result, "error": None}) + "\r\n")
    elif form == "behind words":
        write("Processing request... " + json.dumps(message) + "\n")
    elif form == "in lines":
        write(json.dumps(message, indent=2) + "\n")
    elif form == "in a batch":
        log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info"}}
        write(json.dumps([log, message]) + "\n")
    else:
        write(json.dumps(message) + "\n")


respond.forms = ["bare", "behind words", "in lines", "in a batch"]

out.write(b"\xef\xbb\xbf\n\n")
write("\x1b[32mWeather server 1.0 ready\x1b[0m\n[INFO] listening on stdio\n{not json}\n\n")
for line in sys.stdin:
    request = json.loads(line)
    method, number = request["method"], request.get("id")
    write(f"[DEBUG] {method}\n")
    if method == "initialize":
        respond(number, {"protocolVersion": "1.0"})
    elif method == "tools/list":
        respond(number, {"tools": [{"name": "weather", "inputSchema": {}}]})
    elif method == "tools/call":
        respond(number, "12 degrees")
