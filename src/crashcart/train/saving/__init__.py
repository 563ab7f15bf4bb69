"""Checkpoints written whole or not at all, and runs that go on where they were left."""
