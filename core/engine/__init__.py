"""The worker thread, the model it holds, and what it does between two steps of an answer.

If the Vulkan device is lost or out of memory, the engine moves the answer in progress to the C++
executor: the cache is copied where it can still be read, else the tokens so far are prefilled
again, and the answer goes on. A device that does not finish its work in time is abandoned: nothing
of it is destroyed, as it may still use it. An expected error ends its command and keeps the cache.
After an unexpected one the thread reports it, clears the cache and takes the next command. A load
that does not end two seconds after it was cancelled is left behind with its thread, and a new
thread goes on with the model that was there.
"""
