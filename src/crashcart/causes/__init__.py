"""The knowledge base: one family a folder, one cause a file. Found by folder; see ``cause.py``."""
