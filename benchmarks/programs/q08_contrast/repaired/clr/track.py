import os
import wandb


class Tracker:
    def __init__(self, project, config, tag):
        self.run = wandb.init(project=project, config=config, tags=[tag], settings=wandb.Settings(init_timeout=30))
        self.name = f"{tag}-tau{config['tau']}"

    def log(self, step, **values):
        self.run.log(values, step=step)

    def keep(self, path, step):
        """The weights become a version of their own; the name of the version goes into the table of the sweep."""
        art = wandb.Artifact(f"encoder-{self.name}".replace(".", "_"), type="model", metadata={"step": step})
        art.add_file(path)
        self.run.log_artifact(art)
        offline = self.run.offline
        if not offline:
            art.wait(timeout=60)
        with open("versions.txt", "a") as f:
            f.write(f"{self.name}\t{step}\t{'offline' if offline else art.version}\n")

    def close(self):
        self.run.finish()
