# fine-tune on dialogues, answers only
out_dir = 'out-dialog'
dataset = 'dialog'
batch_size = 8
block_size = 64
n_layer = 2
n_head = 2
n_embd = 64
learning_rate = 6e-3 # baby networks can afford to go higher
grad_clip = 0.0
log_interval = 5
