"""Engines that run elsewhere: other programs' servers, asked as this engine is."""
