"""What a study reports from a hypnogram: validity, sleep statistics, agreement, rare events, cohorts."""
