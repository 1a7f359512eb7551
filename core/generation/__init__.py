"""From a prompt to an answer: prompt, prefill, sampling, one token after the other."""
