"""How answers are made, as a person types and keeps it: lists in lines, lists in JSON, presets."""
