"""Delimited text and tables in memory: cells, columns and the time of rows."""
