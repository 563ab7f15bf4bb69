"""The palaeographers' speller: reads lines, writes for each how many words there are, how many are in no list, and the nearest of the list for all.

    python -m ink.speller < lines > findings
"""
import difflib
import sys

from ink.lines import WORDS


def main():
    known, seen = set(WORDS), {}
    for row in sys.stdin:
        words = row.strip("\n").split()[:-1]
        odd = [w for w in words if w not in known]
        for word in words:
            if word not in seen:
                seen[word] = (difflib.get_close_matches(word, WORDS, 1, 0.3) or ["-"])[0]
        print(len(words), len(odd), *[f"{w}>{seen[w]}" for w in words], flush=True)


if __name__ == "__main__":
    main()
