"""Errors, checks, documents, files and units, which every layer uses."""
