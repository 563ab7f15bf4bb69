import collections, sys
n = collections.Counter(l.split("\t")[1] for l in open(sys.argv[1]))
print("notes:", dict(n))
