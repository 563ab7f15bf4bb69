"""How much fits into memory: measured before, borne where it was too much."""
