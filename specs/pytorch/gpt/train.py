"""Trains the GPT of model.py on the text of this repository's own documents, one process a rank:

  pipec compile gpt.yaml
  torchrun --nproc-per-node 2 train.py
"""
import argparse
import pathlib
import time

import model
import torch

import pipec
import pipec.torch

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SAMPLES = 4  # of a microbatch, as gpt.yaml was measured
WARM_UP = 100  # steps
ASKS = 20  # steps after which the ranks ask whether the time is over


def documents():
    """Their bytes, one after the other."""
    paths = sorted(path for path in ROOT.rglob("*.md") if path.relative_to(ROOT).parts[0] != "build")
    return torch.frombuffer(bytearray(b"\n".join(path.read_bytes() for path in paths)), dtype=torch.uint8).long()


def batch(text, step, samples):
    """Pieces of the text and what follows each byte, the same on every rank."""
    starts = torch.randint(len(text) - model.CONTEXT, (samples, 1), generator=torch.Generator().manual_seed(step))
    pieces = text[starts + torch.arange(model.CONTEXT + 1)]
    return pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous()


def over(end):
    """Whether the first rank's clock has passed the end."""
    box = [time.monotonic() > end]
    torch.distributed.broadcast_object_list(box, src=0)
    return box[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", default=HERE / "gpt.pipe")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--rate", type=float, default=1e-3, help="of AdamW, reached after 100 steps")
    parser.add_argument("--checkpoint", help="a folder, from which a later run goes on")
    given = parser.parse_args()
    torch.distributed.init_process_group("gloo")
    plan = pipec.load(given.plan)
    rank, _ = plan.place()
    text, optimizers, end = documents(), [], time.monotonic() + 60 * given.minutes

    def adamw(named):
        optimizers.append(torch.optim.AdamW([parameter for _, parameter in named], betas=(0.9, 0.99)))
        return optimizers[-1]

    with pipec.torch.Run(plan, pipec.torch.stages(plan, model.layers(), rank), loss=model.loss, optimizer=adamw,
                         checkpoint=given.checkpoint, resume=given.checkpoint is not None) as run:
        losses = []
        for step in range(run.steps_done, given.steps):
            if step % ASKS == 0 and over(end):
                break
            for optimizer in optimizers:
                optimizer.param_groups[0]["lr"] = given.rate * min(1, (step + 1) / WARM_UP)
            x, following = batch(text, step, SAMPLES * plan.microbatches)
            loss = run.step(x, target=following, loss="last")
            if loss is not None:
                losses = losses[-49:] + [loss.item()]
    if losses:
        print(f"mean loss of the last {len(losses)} steps: {sum(losses) / len(losses):.3f} nats a byte", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
