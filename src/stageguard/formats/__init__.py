"""File formats and objects of other tools: `registry` knows them, `read` and `convert` are what to call."""
