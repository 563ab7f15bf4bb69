"""The version, alone in its file so that nothing else is loaded to tell it."""

__version__ = "0.1.0"
