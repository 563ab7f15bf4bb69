"""Ask the official scorer: a service, one sentence at a time."""
import time


class Scorer:
    def __init__(self, latency=0.16):
        self.latency = latency

    def ask(self, gold, said):
        time.sleep(self.latency)
        return sum(g == s for g, s in zip(gold, said, strict=True)) / len(gold)


def decode(scores, transitions):
    """Viterbi in plain Python."""
    best, back = scores[0], []
    for row in scores[1:]:
        choice = [max(range(len(best)), key=lambda j, k=k: best[j] + transitions[j][k]) for k in range(len(row))]
        best = [best[j] + transitions[j][k] + row[k] for k, j in enumerate(choice)]
        back.append(choice)
    path = [max(range(len(best)), key=best.__getitem__)]
    for choice in reversed(back):
        path.append(choice[path[-1]])
    return path[::-1]
