"""Engines elsewhere as the window knows them: who answers, addresses that were used."""
