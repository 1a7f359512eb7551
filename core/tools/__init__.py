"""Functions that a model may call: declared, marked in answers, run by servers over MCP."""
