"""Work on many files: claim outputs, run in processes or on a cluster, resume, stop, list failures."""
