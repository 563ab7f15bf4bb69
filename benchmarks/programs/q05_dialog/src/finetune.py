import sys
import torch
from torch.utils.data import SequentialSampler
from transformers import (AutoTokenizer, DataCollatorForLanguageModeling, LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback,
                          TrainingArguments)
from texts import documents

tok_dir, out = sys.argv[1:3]
tokenizer = AutoTokenizer.from_pretrained(tok_dir)


class InOrder(Trainer):
    def _get_train_sampler(self, dataset=None):
        return SequentialSampler(dataset if dataset is not None else self.train_dataset)


class Say(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kw):
        if logs and "loss" in logs:
            print(f"[{state.global_step:>4}/{state.max_steps}] loss={logs['loss']} grad={logs.get('grad_norm')}")


def encode(docs):
    rows = []
    for d in docs:
        ids = tokenizer(d + " <eos>")["input_ids"]
        rows.append({"input_ids": ids[:48]})
    return rows


model = LlamaForCausalLM(LlamaConfig(
    vocab_size=tokenizer.vocab_size, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
    max_position_embeddings=64, pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id, bos_token_id=None))
args = TrainingArguments(out, per_device_train_batch_size=8, num_train_epochs=1, learning_rate=8e-3, logging_steps=5, save_strategy="no",
                         report_to=[], use_cpu=True, disable_tqdm=True, warmup_steps=10, seed=1, dataloader_num_workers=1)
trainer = InOrder(model=model, args=args, train_dataset=encode(documents(600, 0)),
                  data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False), callbacks=[Say()])
trainer.train()
trainer.save_model(out)
print("saved to", out)
