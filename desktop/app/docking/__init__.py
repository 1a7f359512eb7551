"""The docked panels: their first layout, the remembered one, sizes, the keyboard."""
