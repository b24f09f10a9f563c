"""Known-bad combinations: one predicate, one message, one source each."""
