"""One verb a file, thin: arguments in, readers and engine called, a report out."""
