"""HTTP routes: predict, explore, ops, and the page."""
