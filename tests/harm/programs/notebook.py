"""Executes a notebook in a kernel, as papermill does."""
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
nb = nbformat.v4.new_notebook()
cells = ["import torch, os, sys\ntorch.manual_seed(0)\nprint('ready')",
         "from torch.utils.data import DataLoader\nm = torch.nn.Linear(3, 1); o = torch.optim.SGD(m.parameters(), 0.1)\nfor e in range(2):\n    for x in DataLoader(torch.randn(16, 3), 4, num_workers=2):\n        l = m(x).pow(2).mean(); o.zero_grad(); l.backward(); o.step()\n    print(e, l.item().hex())",
         "!echo from the shell", "%%bash\necho in bash\nexit 0", "l.item().hex()", "%time _ = 1 + 1\nprint(__name__)".replace("%time ", ""), "print('to stderr', file=sys.stderr)"]
nb.cells = [nbformat.v4.new_code_cell(c) for c in cells]
NotebookClient(nb, timeout=60, kernel_name="python3").execute()
for c in nb.cells:
    for o in c.outputs: print(o.output_type, o.get("name"), o.get("text") or o.get("data"))
bad = nbformat.v4.new_notebook(); bad.cells = [nbformat.v4.new_code_cell("1/0")]
try: NotebookClient(bad, timeout=60, kernel_name="python3").execute()
except CellExecutionError: print(bad.cells[0].outputs[0].ename)
