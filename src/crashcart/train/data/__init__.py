"""Files opened in each worker for itself, and an index that all of them share."""
