"""A local web page on which a scorer reviews decoded nights."""
