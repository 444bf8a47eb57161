"""Side-by-side measurements: every claim of speed or accuracy is a ratio from one run of one file here."""
