from rich.console import Console
from rich.table import Table
from rich.traceback import install
install(show_locals=False, width=90)
c = Console()
t = Table(title="results"); t.add_column("epoch"); t.add_column("loss"); [t.add_row(str(i), f"{1/(i+1):.3f}") for i in range(3)]
c.print(t); c.print("[bold green]done[/]", c.width, c.is_terminal)
raise RuntimeError("shown by rich")
