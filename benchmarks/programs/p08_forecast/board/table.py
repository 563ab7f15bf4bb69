import json, sys
rows = [json.loads(l) for l in open(sys.argv[1])]
print(len(rows), "rows, last:", rows[-1])
