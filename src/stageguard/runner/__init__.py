"""Many files: which outputs they claim, one loop over them, resuming, stopping, failures as rows."""
