"""Conversations of the history for the page: lists, one whole, and answers while they come."""
