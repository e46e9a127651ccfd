"""What can be requested, by subject."""
