"""Figures for papers and notebooks, one module each; matplotlib is loaded with the first figure."""
