"""Engines that run elsewhere: servers with OpenAI's protocol, asked over HTTP.

`connecting` finds out who answers at an address (vLLM, llama-server, LM Studio, another llm-lite)
and which models are there; `engine` has the face of the local engine and says the same events. What
a server sends is untrusted: every size, time and depth has a limit, every failure is one sentence.
"""
