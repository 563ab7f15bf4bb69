from tqdm import tqdm, trange
import sys, time
for i in trange(30, bar_format="{l_bar}{bar}| {n_fmt}/{total_fmt}", ncols=60, mininterval=0, miniters=1): pass
with tqdm(total=5, desc="epoch", bar_format="{desc}: {n}/{total} {postfix}", file=sys.stdout, mininterval=0, miniters=1) as bar:
    for i in range(5):
        bar.set_postfix(loss=f"{1 / (i + 1):.2f}", refresh=False); bar.update(); tqdm.write(f"line {i}")
outer = tqdm(total=2, position=0, bar_format="{n}", mininterval=0, miniters=1); inner = tqdm(total=2, position=1, bar_format="{n}", mininterval=0, miniters=1)
outer.update(); inner.update(); inner.close(); outer.close()
