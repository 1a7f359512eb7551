"""Functions that a model may call: declared, marked in answers, run by servers over MCP.

Functions, calls and results come from people, models and servers. Schemas are bounded and checked
when they are declared; a call is data until a person has it run; its arguments are compared with
the schema without running the schema's patterns; results are cut to a length. A server is a
program: it starts when a person has seen its command, gets no more of the environment than it
needs, and has limits of time, of a line's length and of how fast it may write (`transport.py`). A
small process between them (`supervisor.py`) kills the server with all that it has started, once it
has ended, is stopped, or the program is gone, however that went.
"""
