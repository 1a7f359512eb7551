"""The queue of models: downloads, slices, quantizations and deletions, one after the other.

A folder of the user's state holds it, and every program of this person shares it:

    queue.json      the jobs, replaced whole at each change (`queue_file`)
    progress.json   how far the stage that runs is, for the programs that only look on
    edit.lock       held while queue.json is read, changed and written
    worker.lock     held by the one program that carries the queue out, as long as it lives
    stage.lock      held by the process of a stage, as long as it lives

A command of a person is a function of jobs to jobs (`commands`); any program may apply it to the
file, and the one that works obeys what it then reads there. The stages themselves run in a process
of their own (`process`; what they do is in `core/convert/stages/`), which ends with its program.
Each stage may be killed at any moment: a download goes on where it was, a variant appears whole or
not at all and is not written twice, a deletion deletes what is left. The next program, or the one
that waited, takes over what ran.

Deletions that a person asks for are jobs like the others, but wait: they are carried out once
nothing else is left to do and some seconds have passed, and until then undo is to remove the job.
Deleting a job's own source is a stage of that job and follows its quantization at once, after
what was written has been read back; until it begins, the person can still choose to keep it.
"""
