"""Training programs on real data, each run by ``python -m tapegrad.examples.NAME`` (``--help`` tells its options)."""
