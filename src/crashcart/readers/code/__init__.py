"""Parsed Python files, and small changes of them; what is left of the rules that look at syntax."""
