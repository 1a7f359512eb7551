"""The lesson that follows one token through the loaded model: a page, and a picture for each step.

`view` lays it out below the `header`; `begin` is its first page; `pictures` are drawn with `scene`;
`words`, `formulas` and `glossary` explain; `links` lead from a number to its view.
"""
