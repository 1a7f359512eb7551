"""Parts that figures share: axes with names, units and scales, legends, bars of shares, grids."""
