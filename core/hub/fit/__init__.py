"""What a model takes before it is loaded, how fast memory lets it answer, and what would fit where
it does not: found in headers and plans, without a weight being read.
"""
