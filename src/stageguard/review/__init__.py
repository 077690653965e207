"""A page on this computer where a scorer reviews decoded nights."""
