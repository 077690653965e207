"""Profiles: everything the decoder assumes about a population, as sourced documents."""
