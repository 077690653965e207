"""Figures for papers and notebooks, one module each; matplotlib is loaded when the first is drawn."""
