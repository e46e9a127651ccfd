"""Pictures. Each function returns a matplotlib `Figure`; nothing is shown or kept behind it."""
