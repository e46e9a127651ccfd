"""Bridges to other libraries: PyKEEN, scikit-learn, NetworkX, rdflib and pyoxigraph."""
