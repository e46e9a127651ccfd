"""The paper's tables and figures that need no published graph, one file each."""
