"""Batches cut into pieces and put together again."""
