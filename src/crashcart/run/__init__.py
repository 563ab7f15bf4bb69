"""The supervisor: starts the job unchanged, keeps its output, records it from outside and inside, and notices what goes wrong."""
