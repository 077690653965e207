"""Pictures and reports of decoded nights. Measures and decides nothing."""
