"""The bars, written down before the run."""

HIGHEST_FALSE_RATE = 0.05  # of batches of left-out people; two standard errors of the count are allowed
LOWEST_FOUND = 0.90  # of batches of ten nights with channels swapped or one EEG channel lost
MUST_BE_FOUND = (
    "EEG channels swapped",
    "frontal EEG and EOG swapped",
    "frontal EEG lost",
    "posterior EEG lost",
)
