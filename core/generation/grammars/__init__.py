"""Answers that keep to a JSON schema or a grammar: which tokens may come next.

llguidance (https://github.com/guidance-ai/llguidance) compiles schemas and grammars and finds the
masks. Both are untrusted, and no count of the library bounds all that one of them may cost: so each
answer has a matcher in a process of its own, with limits of processor time, memory and stack. One
that oversteps them ends its own answer; the matchers of others go on. An answer whose mask is late
stays out of the steps of others until it is there.

A matcher's process is forked from a server process that has the vocabularies ready, which takes a
millisecond; where a system cannot fork, it is started and given the vocabulary. All of them end
with the program, as their sockets or pipes close.

`grammar` is what an answer uses, `matchers` starts processes and reads what they tell, `channel`
has the messages between both sides; `worker` is what runs over there, and `forms` turns schemas and
grammars into what llguidance takes.
"""
