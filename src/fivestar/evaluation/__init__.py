"""Is a model right? Ranks of true answers among all candidates, and what they say."""
