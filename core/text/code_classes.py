"""The class of a token of code, for its colour: in the window and on the page alike."""

# The first that a token is of, in the order of pygments' tree from leaf to root.
CLASSES = {
    "Comment": "comment",
    "Literal.String": "string",
    "Literal.Number": "number",
    "Literal": "string",
    "Keyword.Type": "type",
    "Keyword.Constant": "number",
    "Keyword": "keyword",
    "Operator.Word": "keyword",
    "Name.Function": "function",
    "Name.Class": "type",
    "Name.Builtin.Pseudo": "keyword",
    "Name.Builtin": "function",
    "Name.Decorator": "function",
    "Name.Tag": "keyword",
    "Name.Attribute": "type",
    "Name.Exception": "type",
    "Generic.Deleted": "deleted",
    "Generic.Inserted": "string",
    "Generic.Heading": "keyword",
    "Generic.Subheading": "type",
}
