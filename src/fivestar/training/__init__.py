"""From facts to numbers: queries, objectives, regularisers, and the loop that runs them."""
