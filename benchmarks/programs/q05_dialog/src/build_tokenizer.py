import sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from texts import NOUNS, VERBS

vocab = {t: i for i, t in enumerate(["<pad>", "<unk>", "<eos>", "the", "."] + NOUNS + VERBS)}
tok = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
tok.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
fast = PreTrainedTokenizerFast(tokenizer_object=tok, pad_token="<pad>", unk_token="<unk>", eos_token="<eos>", model_max_length=48)
fast.add_special_tokens({"additional_special_tokens": ["<|reply|>"]})
fast.save_pretrained(sys.argv[1])
print("vocabulary", fast.vocab_size)
