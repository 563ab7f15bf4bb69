"""A job that was started without us and hangs or crawls now: found from one pid, watched for seconds, told like a recording."""
