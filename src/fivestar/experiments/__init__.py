"""The tables and figures of the paper, the recipes of their runs, and the results ledger."""
