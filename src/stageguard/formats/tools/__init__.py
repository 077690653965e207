"""One module per tool, with the formats it reads and writes in `FORMATS`."""
