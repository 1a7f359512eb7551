"""Encoders: BERT and its kin, which see a whole text at once and give a hidden state per token."""
