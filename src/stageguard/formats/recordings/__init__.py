"""Read recordings from EDF and WFDB files, find the roles of their channels, and align scorings with them."""
