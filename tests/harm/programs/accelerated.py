import argparse
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

def main(args):
    accelerator = Accelerator(mixed_precision=args.mixed_precision, gradient_accumulation_steps=2, cpu=args.cpu)
    set_seed(42)
    ds = TensorDataset(torch.randn(80, 10), torch.randn(80, 1))
    train_dataloader = DataLoader(ds, shuffle=True, batch_size=8, num_workers=2)
    eval_dataloader = DataLoader(ds, batch_size=16, num_workers=1)
    model = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.SiLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(params=model.parameters(), lr=1e-2)
    lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 1 / (1 + s))
    model, optimizer, train_dataloader, eval_dataloader, lr_scheduler = accelerator.prepare(model, optimizer, train_dataloader, eval_dataloader, lr_scheduler)
    for epoch in range(3):
        model.train()
        for step, (x, y) in enumerate(train_dataloader):
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                lr_scheduler.step()
                optimizer.zero_grad()
        model.eval()
        losses = []
        for x, y in eval_dataloader:
            with torch.no_grad():
                losses.append(accelerator.gather_for_metrics((model(x) - y).abs()))
        accelerator.print(f"epoch {epoch}: {torch.cat(losses).float().mean().item().hex()} {loss.item().hex()} {lr_scheduler.get_last_lr()}")
        if epoch == 1:
            accelerator.save_state("state")
    accelerator.wait_for_everyone()
    accelerator.print(sum(p.double().sum().item() for p in accelerator.unwrap_model(model).parameters()).hex())
    accelerator.end_training()
    if accelerator.is_main_process:
        import shutil; shutil.rmtree("state")

if __name__ == "__main__":
    parser = argparse.ArgumentParser(); parser.add_argument("--mixed_precision", default="no"); parser.add_argument("--cpu", action="store_true")
    main(parser.parse_args())
