import os, shutil, warnings; warnings.filterwarnings("ignore")
os.environ["MLFLOW_TRACKING_URI"] = "file:" + os.path.abspath("mlruns"); os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"; os.environ["DO_NOT_TRACK"] = "true"
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
import logging, mlflow, torch
logging.getLogger("mlflow").setLevel(logging.ERROR)
torch.manual_seed(0)
mlflow.set_experiment("e")
with mlflow.start_run(run_name="r") as run:
    mlflow.log_params({"lr": 0.1}); m = torch.nn.Linear(2, 1); o = torch.optim.SGD(m.parameters(), 0.1)
    for s in range(4): l = m(torch.ones(1, 2)).pow(2).sum(); l.backward(); o.step(); o.zero_grad(); mlflow.log_metric("loss", l.item(), step=s)
client = mlflow.tracking.MlflowClient(); print([h.value.hex() for h in client.get_metric_history(run.info.run_id, "loss")], client.get_run(run.info.run_id).info.status)
shutil.rmtree("mlruns")
