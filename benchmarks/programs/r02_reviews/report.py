import json
import math
import sys

metrics = json.load(open(f"{sys.argv[1]}/adapted.json"))
print(f"reviews: loss {metrics['eval_loss']:.3f}  perplexity {math.exp(metrics['eval_loss']):.1f}")
