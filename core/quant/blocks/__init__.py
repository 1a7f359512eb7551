"""Codecs of weight formats, from values to blocks of bytes and back: a file for each family."""
