"""Coverage-guided fuzzing of the reader: ``python -m tests.fuzz``."""
