"""The job as its command, launch script and config describe it, each value as the program will see it, with its place."""
