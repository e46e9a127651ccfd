"""What goes in: names, facts, and every way of reading them."""
