"""Files and objects of other tools: `read` reads them, `convert` writes files, `registry` lists formats."""
