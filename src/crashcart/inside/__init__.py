"""What `crashcart run` puts into every Python process of a job.

Loaded by path under the name `_crashcart_inside`, by any Python from 3.8 on: only the standard library, only relative imports.
"""
