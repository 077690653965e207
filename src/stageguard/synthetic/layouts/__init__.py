"""Simulated recordings in the native layouts of the datasets they imitate. Simulates nothing.

Each module offers ``name_of(number, layout)``, the subject's name; ``write(made, folder, layout)`` for one
recording; and ``finish(subjects, folder, layout)`` for the tables that a cohort has once.
"""
