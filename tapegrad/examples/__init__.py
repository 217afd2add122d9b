"""Training programs on real data: ``python -m tapegrad.examples.NAME``; ``--help`` tells the options."""
