"""From signals to quality and features, by modality."""
