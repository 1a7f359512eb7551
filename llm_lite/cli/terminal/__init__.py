"""The parts that commands share: standard streams, signals, how a command ends, the answer as it
streams."""
