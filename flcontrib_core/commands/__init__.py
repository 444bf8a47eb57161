"""The commands of ``flcontrib``, a file for each job; each parses, calls the porch and prints."""
