"""The sandbox, a separate process that runs a model file's own code: chat templates and tokenizers.

A chat template is a program, and a tokenizer is full of regular expressions; both come with the
file and nobody has read them. Counting what they do from within Python cannot bound one call into
C. Here the system does: the process has limits of processor time, memory and files, and is killed
and started again when it oversteps them. It holds no lock of the interpreter that draws the window.

`process` is the program's side, `worker` the other, in the loop of `serving`; `templates` and
`tokenizers` run over there. A worker of another room may be started the same way.
"""
