"""The key and value cache: its contents, recent prefixes, where its rows came from, its file."""
