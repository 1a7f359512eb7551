"""A model made from another one: quantized, calibrated, sliced, or synthetic for measurements."""
