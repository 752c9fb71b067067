#!/usr/bin/env python3
"""The recipe of configs/fashion_mnist_standard.json (or mnist) in PyTorch: accuracy by epoch.

    /usr/bin/python3 scripts/yardstick.py DATA [--epochs 10] [--no-flip] [--seed 1] [--threads 2] [--bf16]

Written against the recipe and not against attnbench: each image is padded by two black pixels, cropped
at random and mirrored by itself; AdamW without decay on biases, norms, positions and class token; one
warm-up epoch and a cosine per update; clipping at 1. Needs python3-torch.
"""

import argparse
import gzip
import math

import torch
import torch.nn.functional as F

from bench_torch import VisionTransformer

MODEL = {"pool": "cls", "pos_embed": "learned", "attention": {"name": "standard"}, "dropout": 0,
         "dim": 64, "depth": 6, "heads": 4, "mlp_ratio": 2, "image_size": 28, "patch_size": 4,
         "channels": 1, "classes": 10}


def read(folder, part):
    def load(name, header):
        with gzip.open(f"{folder}/{part}-{name}.gz") as file:
            return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)

    labels = load("labels-idx1-ubyte", 8).long()
    return load("images-idx3-ubyte", 16).reshape(-1, 1, 28, 28), labels


def augment(images, flip):
    """A crop and a mirror image for each one by itself, of pixels in 0..255."""
    B = len(images)
    padded = F.pad(images, (2, 2, 2, 2))
    rows = torch.randint(0, 5, (B, 1)) + torch.arange(28)
    columns = torch.randint(0, 5, (B, 1)) + torch.arange(28)
    if flip:
        columns = torch.where(torch.rand(B, 1) < 0.5, columns.flip(1), columns)
    each = torch.arange(B)
    return padded[each[:, None, None], 0, rows[:, :, None], columns[:, None, :]][:, None]


def rate(update, total, warmup):
    if update < warmup:
        return 1e-3 * (update + 1) / warmup
    share = (update - warmup) / (total - warmup)
    return 1e-5 + (1e-3 - 1e-5) * (1 + math.cos(math.pi * share)) / 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--no-flip", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bf16", action="store_true", help="autocast")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    images, labels = read(options.data, "train")
    test_images, test_labels = read(options.data, "t10k")
    mean, std = images.float().mean() / 255, images.float().std() / 255
    model = VisionTransformer(MODEL)
    decayed = [p for n, p in model.named_parameters() if p.dim() > 1 and n not in ("cls_token", "pos_embed")]
    other = [p for n, p in model.named_parameters() if p.dim() <= 1 or n in ("cls_token", "pos_embed")]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.05},
                                   {"params": other, "weight_decay": 0.0}], lr=1e-3)
    updates = -(-len(images) // 128)
    update = 0
    for epoch in range(options.epochs):
        model.train()
        for batch in torch.randperm(len(images)).split(128):
            x = (augment(images[batch], not options.no_flip).float() / 255 - mean) / std
            for group in optimizer.param_groups:
                group["lr"] = rate(update, options.epochs * updates, updates)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.bf16):
                loss = F.cross_entropy(model(x), labels[batch])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            update += 1
        model.eval()
        right = 0
        with torch.no_grad():
            for x, y in zip(test_images.split(500), test_labels.split(500)):
                right += (model((x.float() / 255 - mean) / std).argmax(1) == y).sum().item()
        print(f"epoch {epoch + 1}: test accuracy {100 * right / len(test_labels):.2f} %", flush=True)


if __name__ == "__main__":
    main()
