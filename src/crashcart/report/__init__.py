"""Findings as people and programs read them: terminal, JSON, one HTML file, and the pages of the causes."""
