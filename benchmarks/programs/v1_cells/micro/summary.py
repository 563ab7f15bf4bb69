import argparse
import os

parser = argparse.ArgumentParser()
parser.add_argument("--previews")
folder = parser.parse_args().previews
names = os.listdir(folder)
print(len(names), "previews,", sum(os.path.getsize(os.path.join(folder, n)) for n in names) // 1024, "KiB")
