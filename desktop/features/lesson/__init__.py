"""The lesson that follows one token through the loaded model: a page, and a picture for each step.

`first_page` asks for a sentence. `view` draws a step below the `header`, and `pictures` what
happens in it, by the functions of `scene`. `step_texts`, `formulas` and `glossary` explain it.
`numbers` reads every number off the trace; `other_views` opens the view that shows a number too.
"""
