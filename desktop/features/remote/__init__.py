"""Engines elsewhere: how to connect to one, commands that go there, maps that come from there."""
