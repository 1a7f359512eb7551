"""Questions about a sequence: what each layer would say, which experts its tokens chose, and so on.

A question is a row of the table (`table.py`): its request, its answer, and a function that answers
it of any sequence that an executor holds (`replay.py`). The engine, the server, a remote llm-lite
and Python ask by the table, so none of them knows a single question.
"""
