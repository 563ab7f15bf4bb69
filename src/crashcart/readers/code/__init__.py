"""Parsed Python files, the files of a program, and small changes of them."""
