"""The lesson that follows one token through the loaded model: a page, and a picture for each step.

`page` lays it out; `sentence` has the tokens to choose from; `scene` is what pictures are drawn
with; `words` and `formulas` say what happens; `links` lead from a number to its view.
"""
