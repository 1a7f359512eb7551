"""Interventions in a run of tokens: what each kind of change does at a site of the model.

A kind is a record of core/messages/interventions.py and a row of the table (`table.py`), which says
how it is checked and what it does to the values of a step. `changed_run.py` runs tokens under them.
"""
