"""A tiny GPT-2 from scratch with the Trainer of transformers: evaluation, checkpoints, resuming, generation."""
import os
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
import numpy as np
import torch
from torch.utils.data import Dataset
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer, TrainerCallback, TrainingArguments, set_seed

transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()


class Text(Dataset):
    def __init__(self, n, seed):
        self.data = np.random.RandomState(seed).randint(0, 50, (n, 16))

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        ids = torch.tensor(self.data[i])
        return {"input_ids": ids, "labels": ids}


class Show(TrainerCallback):
    def on_evaluate(self, args, state, control, metrics, **kwargs):
        print("eval", state.global_step, metrics["eval_loss"].hex(), flush=True)

    def on_log(self, args, state, control, logs, **kwargs):
        print("log", state.global_step, sorted(k for k in logs), logs.get("loss"), flush=True)


def main():
    set_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=1, pad_token_id=2))
    args = TrainingArguments("out", per_device_train_batch_size=8, num_train_epochs=3, eval_strategy="epoch", save_strategy="epoch", save_total_limit=1, logging_steps=4,
                             dataloader_num_workers=2, report_to=[], disable_tqdm=True, bf16=torch.cuda.is_available(), seed=0, use_cpu=not torch.cuda.is_available(), full_determinism=False)
    trainer = Trainer(model, args, train_dataset=Text(48, 0), eval_dataset=Text(16, 1), callbacks=[Show()])
    trainer.remove_callback(PrinterCallback)  # prints times
    result = trainer.train()
    print(result.global_step, result.training_loss.hex())
    print(sorted(os.listdir("out")))
    model.eval()
    print(model.generate(torch.zeros(1, 1, dtype=torch.long, device=model.device), attention_mask=torch.ones(1, 1, dtype=torch.long, device=model.device), max_new_tokens=10, do_sample=False).tolist())
    print(sum(p.double().sum().item() for p in model.parameters()).hex())
    trainer.save_model("final")
    print(sorted(os.listdir("final")))
    import shutil
    shutil.rmtree("out"); shutil.rmtree("final")


if __name__ == "__main__":
    main()
