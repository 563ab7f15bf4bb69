import random

NOUNS = "tide gull harbour rope mast sail anchor wharf kelp buoy".split()
VERBS = "finds holds mends leaves greets follows".split()


def sentence(r):
    return f"the {r.choice(NOUNS)} {r.choice(VERBS)} the {r.choice(NOUNS)}"


def documents(n, seed):
    """In the order of the archive: the letters first, then letters with replies, and some long ones."""
    r = random.Random(seed)
    docs = []
    for i in range(n):
        s = [sentence(r) for _ in range(r.choice((3, 4, 5)))]
        if i == 40:
            s *= 12
        if i > 0.55 * n and i % 9 == 4:
            docs.append(" . ".join(s[:2]) + " <|reply|> " + " . ".join(s[2:]))
        else:
            docs.append(" . ".join(s))
    return docs
