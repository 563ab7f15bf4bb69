"""Logs of more than forty frameworks and tools, in the shapes that these really print, with extreme fields.

Each entry holds blocks as they stand together in a real log; a log is a handful of blocks of one or several tools, perhaps
wrapped line by line as a launcher, a container or a scheduler does it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from extreme_fields import filled
from hypothesis import strategies as st
from real_texts import real_logs

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["FRAMEWORKS", "KERNEL", "kernel_logs", "logs", "tame_logs"]

FRAMEWORKS: dict[str, tuple[str, ...]] = {
    "traceback": (
        'Traceback (most recent call last):\n  File "«p»", line «n», in «t»\n    loss = model(batch)\n  File "«p»", line «n», in forward\n«error»: «t» «n»',
        '«error»: «t»\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File "«p»", line «n», in <module>\n    main()\n    ^^^^^^\n«error»: «secret»',
        'Exception in thread «t»:\nTraceback (most recent call last):\n  File "«p»", line «n», in run\n«error»: «t»',
        'Traceback (most recent call last):\n  File "«p»", line «n», in «t»\n  [Previous line repeated «n» more times]\nRecursionError: maximum recursion depth exceeded',
    ),
    "exception group": (
        '  + Exception Group Traceback (most recent call last):\n  |   File "«p»", line «n», in <module>\n  | ExceptionGroup: «t» («n» sub-exceptions)\n  +-+---------------- «n» ----------------\n    | Traceback (most recent call last):\n    |   File "«p»", line «n», in f\n    | «error»: «t»\n    +------------------------------------',
    ),
    "faulthandler": (
        'Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f«n» (most recent call first):\n  File "«p»", line «n» in «t»\n  File "«p»", line «n» in <module>\n\nExtension modules: numpy.core, torch._C (total: «n»)',
        'Timeout (0:00:«n»)!\nThread 0x«n» (most recent call first):\n  File "«p»", line «n» in wait',
    ),
    "py-spy": (
        'Process «pid»: python train.py --api_key=«secret»\nPython v3.11.«n» (/usr/bin/python3.11)\n\nThread «pid» (idle): "MainThread"\n    wait («p»:«n»)\n    «t» («p»:«n»)\n    <module> (train.py:«n»)',
    ),
    "torchrun": (
        "W1115 08:23:01.«n» «pid» torch/distributed/run.py:«n»] Setting OMP_NUM_THREADS environment variable for each process to be «n»",
        "E1115 08:23:01.869000 «pid» torch/distributed/elastic/multiprocessing/api.py:«n»] failed (exitcode: «n») local_rank: «rank» (pid: «pid») of binary: /usr/bin/python",
        "============================================================\ntrain.py FAILED\n------------------------------------------------------------\nFailures:\n  <NO_OTHER_FAILURES>\n------------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n  time      : «time»\n  host      : «host»\n  rank      : «rank» (local_rank: «rank»)\n  exitcode  : «n» (pid: «pid»)\n  error_file: <N/A>\n  traceback : Signal «n» («signal») received by PID «pid»\n============================================================",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "[W1115 08:23:01.«n» socket.cpp:«n»] [c10d] The client socket has failed to connect to [«host»]:«n» (errno: «n» - Connection refused).",
    ),
    "accelerate": (
        "subprocess.CalledProcessError: Command '['/usr/bin/python', 'train.py', '--report_to=«t»', '--lr', '«x»', '--max_steps=«n»', '«secret»']' returned non-zero exit status «n».",
        "11/15/2026 08:23:0«n» - INFO - __main__ - ***** Running training *****\n11/15/2026 08:23:01 - INFO - __main__ -   Num examples = «n»\n11/15/2026 08:23:01 - INFO - __main__ -   Gradient Accumulation steps = «n»\n11/15/2026 08:23:01 - INFO - __main__ -   Total optimization steps = «n»",
    ),
    "deepspeed": (
        "[2026-11-15 08:25:53,326] [INFO] [logging.py:«n»:log_dist] [Rank «rank»] step=«n», skipped=«n», lr=[«x», «x»], mom=[(0.9, 0.999)]",
        "[2026-11-15 08:25:53,«n»] [INFO] [stage3.py:«n»:_overflow_clean_up] [deepspeed] OVERFLOW! Rank «rank» Skipping step. Attempted loss scale: «n», reducing to «n»",
        "[2026-11-15 08:25:53,326] [ERROR] [launch.py:«n»:sigkill_handler] ['/usr/bin/python', '-u', 'train.py', '--local_rank=«rank»'] exits with return code = «n»",
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
    ),
    "lightning": (
        "Epoch «n»:  «n»%|██▏       | «n»/«n» [00:«n»<«n»:12, «x»it/s, v_num=«n», train_loss=«x»]",
        "`Trainer.fit` stopped: `max_epochs=«n»` reached.",
        "LOCAL_RANK: «rank» - CUDA_VISIBLE_DEVICES: [«n»,«n»]\nInitializing distributed: GLOBAL_RANK: «rank», MEMBER: «n»/«n»",
        "Epoch «n», global step «n»: 'val_loss' reached «x» (best «x»), saving model to '«t»' as top «n»",
    ),
    "hf trainer": (
        "{'loss': «x», 'grad_norm': «x», 'learning_rate': «x», 'epoch': «x»}",
        "{'train_runtime': «x», 'train_samples_per_second': «x», 'train_steps_per_second': «x», 'train_loss': «x», 'epoch': «x»}",
        "  «n»%|█▊        | «n»/«n» [«n»:39<«n»:01,  «x»s/it]",
        "Saving model checkpoint to /out/checkpoint-«n»\nConfiguration saved in /out/checkpoint-«n»/config.json",
    ),
    "tqdm": (
        "train: «n»%|«t»| «n»/«n» [«n»:«n»<?, ?it/s]\rtrain: «n»%|###| «n»/«n» [00:01<00:00, «x»it/s, loss=«x»]",
        "  0%|          | 0/«n» [00:00<?, ?it/s]",
    ),
    "rich": (
        "╭──────────────── Traceback (most recent call last) ─────────────────╮\n│ «p»:«n» in «t»                             │\n│   ❱ «n»     raise ValueError(«t»)            │\n╰─────────────────────────────────────────────────────────────────────╯\n«error»: «t»",
        "\x1b[2;36m[08:23:01]\x1b[0m\x1b[2;36m \x1b[0m\x1b[34mINFO    \x1b[0m step \x1b[1;36m«n»\x1b[0m loss \x1b[1;36m«x»\x1b[0m",
    ),
    "nccl": (
        "«host»:«pid»:«pid» [«rank»] NCCL INFO comm 0x55d0c1a0000 rank «rank» nranks «n» cudaDev «n» busId «n» - Init COMPLETE",
        "[rank«rank»]:[E1115 08:25:33.«n» ProcessGroupNCCL.cpp:«n»] [Rank «rank»] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=«n», OpType=ALLREDUCE, NumelIn=«n», NumelOut=«n», Timeout(ms)=«n») ran for «n» milliseconds before timing out.",
        "«host»:«pid»:«pid» [«rank»] misc/socket.cc:«n» NCCL WARN socketStartConnect: Connect to «host»<«n»> failed : «t»",
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:«n», unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version «x»",
        "[rank«rank»]:[E ProcessGroupNCCL.cpp:«n»] [PG ID «n» PG GUID «n» Rank «rank»] Timeout at NCCL work: «n», last enqueued NCCL work: «n», last completed NCCL work: «n».",
    ),
    "gloo": (
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:«n»] Connection closed by peer [«host»]:«n»",
        "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:«n»] Timed out waiting «n»ms for recv operation to complete",
    ),
    "cuda oom": (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate «size». GPU «n» has a total capacity of «size» of which «size» is free. Process «pid» has «size» memory in use. Of the allocated memory «size» is allocated by PyTorch, and «size» is reserved by PyTorch but unallocated.",
        "RuntimeError: CUDA out of memory. Tried to allocate «size» (GPU «n»; «size» total capacity; «size» already allocated; «size» free; «size» reserved in total by PyTorch)",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:«n»] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate «n» bytes. Error code «n» (Cannot allocate memory)",
        "RuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported at some other API call",
    ),
    "wandb": (
        "wandb: Currently logged in as: «t» (team). Use `wandb login --relogin` to force relogin\nwandb: «secret»",
        "wandb: Network error (ConnectionError), entering retry loop.\nwandb: ERROR Error while calling W&B API: «t» (<Response [«n»]>)",
        "wandb: Run history:\nwandb:       train/loss █▇▆▅▄▃▂▁\nwandb: Run summary:\nwandb:       train/loss «x»\nwandb:     global_step «n»",
        "wandb: WARNING Step «n» < «n»; dropping entry: {'loss': «x»}",
    ),
    "mlflow": (
        "2026/11/15 08:23:01 INFO mlflow.tracking.fluent: Experiment with name '«t»' does not exist. Creating a new experiment.\nmlflow.exceptions.MlflowException: API request to https://user:«secret»@mlflow/api/2.0 failed with exception HTTPSConnectionPool(host='«host»', port=«n»): Max retries exceeded",
    ),
    "tensorboard": (
        "TensorBoard 2.«n».1 at http://«host»:«n»/ (Press CTRL+C to quit)\nOSError: [Errno «n»] «t»: 'runs/events.out.tfevents.«n».«host».«pid».0'",
    ),
    "ray": (
        "(RayTrainWorker pid=«pid», ip=«host») step «n» loss «x»",
        "\x1b[36m(TrainController pid=«pid»)\x1b[0m Attempting to start training worker group of size «n» with the following resources: [{'CPU': «n»}] * «n»",
        'ray.exceptions.RayTaskError(«error»): \x1b[36mray::train()\x1b[39m (pid=«pid», ip=«host»)\n  File "«p»", line «n», in train\n«error»: «t»',
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\nMemory on the node (IP: «host», ID: «n») where the task (task ID: «n», name=train, pid=«pid», memory used=«x»GB) was running was «x»GB / «x»GB («x»), which exceeds the memory usage threshold of «x».",
    ),
    "slurm": (
        "slurmstepd: error: *** JOB «n» ON «host» CANCELLED AT 2026-11-15T08:23:0«n» DUE TO TIME LIMIT ***",
        "slurmstepd: error: Detected «n» oom_kill events in StepId=«n».«n». Some of the step tasks have been OOM Killed.",
        "srun: error: «host»: task «rank»: Exited with exit code «n»\nsrun: launch/slurm: _step_signal: Terminating StepId=«n».«n»",
        "srun: Job step aborted: Waiting up to «n» seconds for job step to finish.\nslurmstepd: error: *** STEP «n».«n» ON «host» CANCELLED AT «time» DUE TO PREEMPTION ***",
        "JobId=«n» JobName=«t» State=«t» ExitCode=«n»:«n» MaxRSS=«n»K Elapsed=«n»:«n»:«n»",
    ),
    "kubernetes": (
        '{"log":"step «n» loss «x»\\n","stream":"stdout","time":"2026-11-15T08:23:01.«n»Z"}',
        "2026-11-15T08:23:01.«n»Z stderr F «error»: «t»",
        "[pod/llm-sft-worker-«rank»/pytorch] 2025-03-11T08:14:02.000000721Z step «n»",
        "    State:          Terminated\n      Reason:       OOMKilled\n      Exit Code:    «n»\n      Started:      «time»\n    Restart Count:  «n»",
        "Warning  Evicted  «n»m  kubelet  The node was low on resource: memory. Threshold quantity: «n», available: «n»Ki.",
    ),
    "docker": (
        "worker-«rank»  | step «n» loss «x»\nworker-«rank» exited with code «n»",
        "docker: Error response from daemon: OCI runtime create failed: «t»: unknown.",
    ),
    "journal": (
        "Mar 11 08:14:«n» trainbox python3[«pid»]: INFO:trainer:step «n» loss «x»",
        "Nov 15 08:23:01 «host» systemd[1]: train.service: Main process exited, code=killed, status=«n»/KILL\nNov 15 08:23:01 «host» systemd[1]: train.service: Failed with result '«t»'.",
        "Nov 15 08:23:01 «host» systemd-oomd[«pid»]: Killed /user.slice/user-«n».slice due to memory used («n») / total («n») and swap used",
    ),
    "nvidia-smi": (
        "|   «n»  NVIDIA H100 80GB HBM3          On  |   00000000:«n»:00.0 Off |                    «n» |\n| N/A   «n»C    P0             «n»W /  «n»W |   «n»MiB /  «n»MiB |    «n»%      Default |",
        "Unable to determine the device handle for GPU«n»: «n»:00.0: Unknown Error\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
    ),
    "absl": (
        "I1115 08:23:01.«n» «pid» train.py:«n»] step «n»: loss=«x»\nE1115 08:23:01.000001 «pid» «p»:«n»] «t»",
        "F0000 00:00:«n».084812 «pid» cuda_dnn.cc:«n»] Check failed: «t»",
    ),
    "loguru": (
        "«time».123 | ERROR    | __main__:«t»:«n» - «t»",
        "2026-11-15 08:23:01.«n» | INFO     | trainer:fit:«n» - step=«n» loss=«x» lr=«x»",
    ),
    "structlog": (
        '{"event": "step", "step": «n», "loss": «x», "level": "info", "timestamp": "«time»"}',
        '{"event": "«t»", "level": "error", "exception": "Traceback (most recent call last):\\n  File \\"«p»\\", line «n», in f\\n«error»: «t»", "api_key": "«secret»"}',
        '{"step": «n», "metrics": {"loss": «x», "grad_norm": «x»}, "rank": «rank»}',
    ),
    "hydra": (
        "[«time»,123][__main__][INFO] - step «n» loss «x»",
        "Error executing job with overrides: ['lr=«x»', 'model=«t»', '+trainer.max_steps=«n»']\nTraceback (most recent call last):\n  File \"«p»\", line «n», in main\nomegaconf.errors.ConfigAttributeError: Key '«t»' is not in struct\n    full_key: «t»\n    object_type=dict",
    ),
    "fairseq": (
        "2026-11-15 08:23:01 | INFO | train_inner | epoch «n»:   «n» / «n» loss=«x», nll_loss=«x», ppl=«x», wps=«x», ups=«x», wpb=«n», bsz=«n», num_updates=«n», lr=«x», gnorm=«x», loss_scale=«n», train_wall=«n», gb_free=«x», wall=«n»",
        "FloatingPointError: Minimum loss scale reached («x»). Your loss is probably exploding.",
    ),
    "megatron": (
        " [2026-11-15 08:23:01] iteration «n»/«n» | consumed samples: «n» | elapsed time per iteration (ms): «x» | learning rate: «x» | global batch size: «n» | lm loss: «x» | loss scale: «x» | grad norm: «x» | number of skipped iterations: «n» | number of nan iterations: «n» |",
    ),
    "nemo": (
        "[NeMo W 2026-11-15 08:23:01 nemo_logging:«n»] /usr/lib/python3.11/site-packages/x.py:«n»: UserWarning: «t»",
    ),
    "mmengine": (
        "11/15 08:23:01 - mmengine - INFO - Epoch(train)  [«n»][«n»/«n»]  lr: «x»  eta: «n» day, «n»:«n»:«n»  time: «x»  data_time: «x»  memory: «n»  loss: «x»",
    ),
    "detectron2": (
        "[11/15 08:23:01 d2.utils.events]:  eta: «n»:«n»:«n»  iter: «n»  total_loss: «x»  loss_cls: «x»  time: «x»  data_time: «x»  lr: «x»  max_mem: «n»M",
        "FloatingPointError: Loss became infinite or NaN at iteration=«n»!\nloss_dict = {'loss_cls': «x», 'loss_box_reg': «x»}",
    ),
    "keras": (
        "Epoch «n»/«n»\n«n»/«n» [==============>...............] - ETA: «n»:«n» - loss: «x» - accuracy: «x»\x08\x08\x08\x08",
        "«n»/«n» ━━━━━━━━━━━━━━━━━━━━ «n»s «n»ms/step - accuracy: «x» - loss: «x» - val_loss: «x»",
    ),
    "yolo": (
        "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n      «n»/«n»      «x»G      «x»      «x»      «x»         «n»        «n»: 100%|██| «n»/«n»",
    ),
    "sb3": (
        "------------------------------------\n| time/                   |        |\n|    fps                  | «n»    |\n|    total_timesteps      | «n»    |\n| train/                  |        |\n|    loss                 | «x»    |\n------------------------------------",
    ),
    "xgboost and sklearn": ("[«n»]\tvalidation_0-logloss:«x»\tvalidation_1-logloss:«x»",),
    "plain loop": (
        "step «n» loss «x»",
        "Epoch [«n»/«n»], Step [«n»/«n»], Loss: «x»",
        "iter «n»: loss «x», time «x»ms, mfu «x»%",
        "epoch=«n» step=«n» train_loss=«x» val_loss=«x» lr=«x» grad_norm=«x» tokens=«n»",
    ),
    "dataloader": (
        "RuntimeError: DataLoader worker (pid «pid») is killed by signal: Killed.",
        "RuntimeError: DataLoader worker (pid(s) «pid», «pid») exited unexpectedly",
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
    ),
    "apptainer": ("FATAL:   while extracting /cache/«t».sif: root filesystem extraction failed: «t»", "WARNING: underlay of /etc/localtime required more than 50 («n») bind mounts"),
    "conda": ("PackagesNotFoundError: The following packages are not available from current channels:\n\n  - «t»=«x»", "conda: command not found", "EnvironmentLocationNotFound: Not a conda environment: /opt/conda/envs/«t»"),
    "make": ("make: *** [Makefile:«n»: train] Error «n»", "make[«n»]: Leaving directory '/app/«t»'", "make: *** No rule to make target '«t»', needed by 'train'.  Stop."),
    "bash": (
        "train.sh: line «n»: «pid» Killed                  python train.py --lr «x»",
        "bash: line «n»: --config: command not found",
        "/var/spool/slurmd/job«n»/slurm_script: line «n»: «t»: unbound variable",
        "timeout: sending signal TERM to command 'python'\nTerminated",
        "+ python train.py --token «secret» --lr «x»",
    ),
    "compile": ("[rank«rank»]:W1115 08:23:01.«n» «pid» torch/_dynamo/convert_frame.py:«n»] torch._dynamo hit config.recompile_limit («n»)",),
    "storage": (
        "OSError: [Errno 28] No space left on device: '/out/checkpoint-«n»/«t»'",
        "RuntimeError: [enforce fail at inline_container.cc:«n»] . unexpected pos «n» vs «n»",
        "OSError: [Errno «n»] «t»: '/data/«t»'",
    ),
    "hub": (
        "requests.exceptions.HTTPError: «n» Client Error: Unauthorized for url: https://huggingface.co/api/models/«t»?token=«secret»",
        "Downloading shards:  «n»%|██ | «n»/«n» [«n»:«n»<«n»:«n», «x»MB/s]",
    ),
}  # fmt: skip

KERNEL = (
    "[«x»] NVRM: Xid (PCI:0000:«n»:00): «n», pid=«pid», name=python, «t»",
    "[Sat Nov 15 08:23:«n» 2026] NVRM: Xid (PCI:0000:3b:00): «n», pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "[«x»] python invoked oom-killer: gfp_mask=0x«n»(GFP_KERNEL), order=«n», oom_score_adj=«n»\n[«x»] Memory cgroup out of memory: Killed process «pid» (python) total-vm:«n»kB, anon-rss:«n»kB, file-rss:«n»kB, shmem-rss:«n»kB, UID:«n» pgtables:«n»kB oom_score_adj:«n»",
    "[«x»] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=«n»-«n»,oom_memcg=/slurm/job_«n»,task_memcg=/slurm/job_«n»,task=python,pid=«pid»,uid=«n»",
    "[«x»] memory: usage «n»kB, limit «n»kB, failcnt «n»\n[«x»] [  «pid»]     0  «pid»  «n»  «n»  «n»        0           «n» python",
    "2026-11-15T08:23:01,«n»+00:00 python[«pid»]: segfault at «n» ip 00007f«n» sp «n» error «n» in libtorch_cpu.so[7f«n»+«n»]",
    "«time» kernel: INFO: task python:«pid» blocked for more than «n» seconds.",
    "Nov 15 08:23:01 «host» kernel: [«x»] watchdog: BUG: soft lockup - CPU#«n» stuck for «n»s! [python:«pid»]",
    "<«n»>[«x»] nfs: server «host» not responding, timed out",
    "kern  :err   : [«x»] EXT4-fs error (device sda«n»): ext4_find_entry:«n»: inode #«n»: comm python: «t»\nkern  :crit  : [«x»] EXT4-fs (sda«n»): Remounting filesystem read-only",
    "[«x»] blk_update_request: I/O error, dev nvme«n»n1, sector «n» op 0x0:(READ) flags 0x«n»",
    "[«x»] EDAC MC«n»: «n» CE memory read error on CPU_SrcID#«n» (channel:«n» slot:«n» page:0x«n»)",
    '{"_TRANSPORT":"kernel","__REALTIME_TIMESTAMP":"«n»","MESSAGE":"NVRM: Xid (PCI:0000:3b:00): «n», «t»","SYSLOG_TIMESTAMP":"«time»"}',
    "[«x»] nvidia-nvswitch0: SXid (PCI:0000:«n»:00.0): «n», Fatal, Link «n» «t»",
    "[«x»] usb 1-1: new device «t»",
)  # fmt: skip

_BLOCKS = {name: st.one_of(*map(filled, blocks)) for name, blocks in FRAMEWORKS.items()}
_EVERY = st.one_of(*_BLOCKS.values())
_WRAPPERS = (
    "{}", "{}", "{}", "{}", "{}", "[rank1]: {}", "[default3]:[rank3]:{}", "3: {}", "2026-11-15T08:23:01.123Z {}", "Mar 11 08:14:06 box python[42]: {}",
    "[1,2]<stderr>:{}", "(RayTrainWorker pid=911, ip=10.0.0.4) {}", "\x1b[32m{}\x1b[0m", "worker-1  | {}", "> {}",
)  # fmt: skip


def _wrapped(parts: tuple[list[str], str]) -> str:
    blocks, wrapper = parts
    if wrapper == "{}":
        return "\n".join(blocks) + "\n"
    before, _, after = wrapper.partition("{}")
    return "".join(f"{before}{line}{after}\n" for block in blocks for line in block.split("\n"))


def _as_json(text: str) -> str:
    """As Kubernetes and structlog write it: one object for each line."""
    return "".join(json.dumps({"log": f"{line}\n", "stream": "stderr"}) + "\n" for line in text.split("\n"))


_one_tool = st.sampled_from(sorted(_BLOCKS)).flatmap(lambda name: st.lists(_BLOCKS[name], min_size=1, max_size=10))
_many_tools = st.lists(_EVERY, min_size=1, max_size=14)
_texts = st.tuples(st.one_of(_one_tool, _many_tools), st.sampled_from(_WRAPPERS)).map(_wrapped)
logs: SearchStrategy[str] = st.one_of(_texts, _texts, real_logs, real_logs, _texts.map(_as_json))
kernel_logs: SearchStrategy[str] = st.lists(st.one_of(*map(filled, KERNEL)), min_size=1, max_size=12).map(
    lambda lines: "\n".join(lines) + "\n"
)
# Logs whose meaning is the same in every spelling: no control characters, no line that is itself a spelling.
_TAME = str.maketrans({chr(code): " " for code in (*range(32), 127, *range(128, 160), 0x2028, 0x2029, 0xFEFF) if code != 10})


def _tamed(text: str) -> str:
    return text.translate(_TAME).encode("utf-8", "replace").decode()


tame_logs: SearchStrategy[str] = st.one_of(
    st.one_of(_one_tool, _many_tools).map(lambda blocks: "\n".join(blocks) + "\n"),
    real_logs,
).map(_tamed)
