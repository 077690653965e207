"""Recordings in files: EDF, WFDB, the roles of their channels, and where scorings lie in them."""
