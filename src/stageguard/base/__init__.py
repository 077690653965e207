"""What every layer stands on: errors, checks, documents, files, units."""
