"""PyTorch's side of bench_peers.py: one measurement in a process of its own, one JSON object out.

The model is timm's Vision Transformer in plain PyTorch: patch embedding as a convolution, one
linear layer for q, k and v, softmax attention (F.scaled_dot_product_attention where this PyTorch
has it), nn.LayerNorm with eps 1e-6, exact GELU. A training step clears the gradients, runs forward
and backward, clips the norm to 1 and updates with AdamW. What is measured, and how long for, is as
in `attnbench bench`: random images in memory, at least two steps and a quarter of the time to warm
up, then the median over steps. Swin is torchvision's. --attention measures softmax(scale q k^T) v
alone.
"""

import argparse
import ctypes
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, D = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, D // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            y = ((q * self.scale) @ k.transpose(-2, -1)).softmax(dim=-1) @ v
        return self.proj(y.transpose(1, 2).reshape(B, N, D))


class Block(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """`model`: that object of an effective config, with class token and standard attention."""

    def __init__(self, model):
        super().__init__()
        assert model["pool"] == "cls" and model["pos_embed"] == "learned"
        assert model["attention"]["name"] == "standard" and not model["dropout"]
        dim, patch = model["dim"], model["patch_size"]
        tokens = (model["image_size"] // patch) ** 2 + 1
        hidden = int(dim * model["mlp_ratio"])
        self.patch_embed = nn.Conv2d(model["channels"], dim, patch, patch)
        self.cls_token = nn.Parameter(1e-6 * torch.randn(1, 1, dim))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, tokens, dim))
        self.blocks = nn.Sequential(
            *[Block(dim, model["heads"], hidden) for _ in range(model["depth"])])
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, model["classes"])
        for name, parameter in self.named_parameters():
            if name.endswith("weight") and parameter.dim() > 1:
                nn.init.trunc_normal_(parameter, std=0.02)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(len(x), -1, -1), x), dim=1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


def make_optimizer(model):
    """AdamW in the faster of its two forms on this model; says which."""
    parameters = list(model.parameters())
    times = {}
    for foreach in (False, True):
        optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.05, foreach=foreach)
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        start = time.perf_counter()
        for _ in range(3):
            optimizer.step()
        times[foreach] = time.perf_counter() - start
        del optimizer
    best = min(times, key=times.get)
    for parameter in parameters:
        parameter.grad = None
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.05, foreach=best), best


def training(model, x, y, autocast):
    optimizer, foreach = make_optimizer(model)
    parameters = list(model.parameters())

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()

    return step, "foreach" if foreach else "single tensors"


def inference(model, x, form):
    model.eval()
    if form == "weights in bf16":
        model, x = model.bfloat16(), x.bfloat16()
    if form == "jit":
        with torch.no_grad():
            model = torch.jit.freeze(torch.jit.trace(model, x))
            model = torch.jit.optimize_for_inference(model)

    def step():
        with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16,
                                                    enabled=form == "autocast"):
            model(x)

    return step


def run(step, seconds, least):
    """The seconds of each step, until `seconds` have passed and `least` steps are done."""
    times = []
    start = before = time.perf_counter()
    while len(times) < least or before - start < seconds:
        step()
        now = time.perf_counter()
        times.append(now - before)
        before = now
    return times


def quantile(values, q):
    values = sorted(values)
    at = q * (len(values) - 1)
    below = min(int(at), len(values) - 2) if len(values) > 1 else 0
    above = min(below + 1, len(values) - 1)
    return values[below] + (at - below) * (values[above] - values[below])


def rss_bytes(which):
    """VmHWM: the most so far; VmRSS: now."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(which + ":"):
                return int(line.split()[1]) * 1024
    return 0


def blas():
    """Version, kernel and directory of the OpenBLAS in this process."""
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "libopenblas" in line}
    if not paths:
        return "no OpenBLAS"
    path = sorted(paths)[0]
    library = ctypes.CDLL(path)
    library.openblas_get_corename.restype = ctypes.c_char_p
    library.openblas_get_config.restype = ctypes.c_char_p
    version = " ".join(library.openblas_get_config().decode().split()[:2])
    threads = {0: "serial", 1: "pthread", 2: "openmp"}[library.openblas_get_parallel()]
    return "%s %s %s" % (version, library.openblas_get_corename().decode(), threads)


def capability():
    for line in torch.__config__.show().splitlines():
        if "CPU capability usage:" in line:
            return line.split(":")[1].strip()
    return "unknown"


def sgemm():
    """GFLOP/s of a plain product of 1024 x 1024 matrices."""
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    times = run(lambda: torch.mm(a, b), 0.5, 5)
    return {"gflops_per_sec": 2 * 1024 ** 3 / quantile(times, 0.5) / 1e9}


def swin_tiny(config):
    """torchvision's, without stochastic depth."""
    from torchvision.models.swin_transformer import SwinTransformer
    assert config["name"] == "swin_tiny_patch4_window7_224" and config["image_size"] == 224
    return SwinTransformer(patch_size=[4, 4], embed_dim=96, depths=[2, 2, 6, 2],
                           num_heads=[3, 6, 12, 24], window_size=[7, 7], stochastic_depth_prob=0,
                           num_classes=config["classes"])


def make_model(options):
    """The model of the config, and images for it."""
    with open(options.config) as file:
        config = json.load(file)["model"]
    torch.manual_seed(1)
    size = (options.batch, config["channels"], config["image_size"], config["image_size"])
    model = swin_tiny if config["name"].startswith("swin") else VisionTransformer
    return model(config), torch.randn(size), config["classes"]


def export(options):
    """Writes the model as ONNX for bench_onnx.js, with inputs of this batch size."""
    model, x, _ = make_model(options)
    torch.onnx.export(model.eval(), x, options.onnx, opset_version=17, input_names=["x"],
                      output_names=["logits"])
    return {"params": sum(parameter.numel() for parameter in model.parameters())}


def attention(options):
    """A step of attention alone, composed, on B, H, N, d of --attention."""
    B, H, N, d = (int(text) for text in options.attention.split(","))
    kind = torch.bfloat16 if options.form == "tensors in bf16" else torch.float32
    training = options.mode == "train"
    q, k, v = (torch.randn(B, H, N, d).to(kind).requires_grad_(training) for _ in range(3))
    dy = torch.randn(B, H, N, d).to(kind)

    def step():
        with torch.set_grad_enabled(training), torch.autocast(
                "cpu", dtype=torch.bfloat16, enabled=options.form == "autocast"):
            y = ((q * d ** -0.5) @ k.transpose(-2, -1)).softmax(dim=-1) @ v
        if training:
            y.backward(dy.to(y.dtype))
            q.grad = k.grad = v.grad = None

    return step


def time_steps(options, step, result):
    run(step, options.seconds / 4, min(2, options.least - 1))
    times = run(step, options.seconds, options.least)
    result["step_ms"] = {"median": 1e3 * quantile(times, 0.5), "p10": 1e3 * quantile(times, 0.1),
                         "p90": 1e3 * quantile(times, 0.9)}
    result["steps"] = len(times)


def measure_attention(options):
    result = {"mode": options.mode, "form": options.form}
    step, before = attention(options), rss_bytes("VmRSS")
    time_steps(options, step, result)
    result["growth_bytes"] = rss_bytes("VmHWM") - before
    return result


def measure(options):
    model, x, classes = make_model(options)
    y = torch.randint(classes, (options.batch,))
    result = {"mode": options.mode, "batch": options.batch, "form": options.form,
              "params": sum(parameter.numel() for parameter in model.parameters())}
    if options.mode == "train":
        step, result["adamw"] = training(model, x, y, options.form == "autocast")
    else:
        step = inference(model, x, options.form)
    time_steps(options, step, result)
    result["img_per_sec"] = 1e3 * options.batch / result["step_ms"]["median"]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", help="effective config (attnbench config)")
    parser.add_argument("--mode", choices=("train", "infer"), default="train")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--least", type=int, default=3, help="steps to measure (default: 3)")
    parser.add_argument("--form", default="eager", choices=(
        "eager", "autocast", "jit", "weights in bf16", "tensors in bf16"))
    parser.add_argument("--attention", metavar="B,H,N,d", help="attention alone, not a model")
    parser.add_argument("--sgemm", action="store_true", help="a plain product, not the model")
    parser.add_argument("--onnx", metavar="FILE", help="measure nothing, write the model there")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    if options.sgemm:
        result = sgemm()
    elif options.onnx:
        result = export(options)
    elif options.attention:
        result = measure_attention(options)
    else:
        result = measure(options)
    result.update(threads=options.threads, torch=torch.__version__, blas=blas(),
                  capability=capability(), peak_rss_bytes=rss_bytes("VmHWM"))
    json.dump(result, sys.stdout)
    print()


if __name__ == "__main__":
    main()
