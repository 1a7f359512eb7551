"""Many answers at once: sequences that share steps, a cache in pages, and prefixes held once.

While clients of a server are answered, the chat's executor has room for them
(`core/loading/client_room.py`): all caches lie in pages of 128 positions (`core/plan/step.py`,
`PageShape`), the chat's first. A shared step has the next token of every answer, the chat's among
them, and beside them a page of one prompt or of several short ones: a new request waits for a step,
not for an answer. Where a step of the chat has no place for all of them, one of theirs follows, and
while the chat is idle one follows the other (`core/engine/clients.py`). A full page is known by the
hash of all tokens up to its end; answers that begin alike use the same page, and pages of ended
answers stay until others need them. The next turn of a conversation goes on in the page, not full,
where the turn before ended, so that only what is new is read. Where no page is left, the youngest
answer releases its pages and is computed again later. Layers with a window have fewer pages: one
lies there as long as some sequence's window reaches it (`window_places.py`), and a prefix is used
as far as its last window is there. Of a model with recurrent states it is used as far as the state
behind it is there (`client_states.py`). An embedding has only pages that no answer
needs: it waits for them, and releases them before an answer does.

A greedy answer is the same alone and beside others, to the last bit of its logits: kernels give a
sequence the same bits whatever else is in the step, chunks of a prompt end at the same positions
under any load, and what is computed again is cut as it was the first time. With int8 activations an
answer that goes on behind kept pages of an earlier one is the same, too. With float32 ones it may
differ in the last bits, as in the chat: what was decoded was computed a token at a time.

Requests are encoded on the threads that ask. Another executor of the same model takes running
answers over; another model ends them with a sentence. A client may switch the weight mode
(`core/engine/hosting/mode_switches.py`): everything else that the model runs with stays. Maps,
lens, statistics and traces of an answer are made of its pages, as long as they are there.
"""
