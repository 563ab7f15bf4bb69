import logging
from dataclasses import dataclass, field
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments, set_seed
from corpus import Arithmetic

logger = logging.getLogger(__name__)


@dataclass
class ModelArguments:
    n_embd: int = field(default=160)
    n_layer: int = field(default=3)
    n_head: int = field(default=4)


@dataclass
class DataArguments:
    train_rows: int = field(default=600)
    eval_rows: int = field(default=32)


def main():
    margs, dargs, targs = HfArgumentParser((ModelArguments, DataArguments, TrainingArguments)).parse_args_into_dataclasses()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s - %(name)s - %(message)s")
    set_seed(targs.seed)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=128, n_positions=64, n_embd=margs.n_embd, n_layer=margs.n_layer, n_head=margs.n_head,
                                       bos_token_id=0, eos_token_id=0))
    logger.info("Training new model from scratch - Total size=%.2fM params", model.num_parameters() / 1e6)
    trainer = Trainer(model=model, args=targs, train_dataset=Arithmetic(dargs.train_rows), eval_dataset=Arithmetic(dargs.eval_rows, seed=1))
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
