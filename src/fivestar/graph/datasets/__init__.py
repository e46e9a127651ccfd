"""Published graphs by name: what they are, where they are, and how they come here unharmed."""
