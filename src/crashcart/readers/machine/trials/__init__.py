"""Small programs that ``doctor --active`` runs with the job's own interpreter; nothing of crashcart is imported in them."""
