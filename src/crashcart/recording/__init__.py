"""A run on disk: its folder, the samples and events in it, and how they are read again."""
