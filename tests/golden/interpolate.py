#!/usr/bin/env python3
"""What PyTorch makes of grids of learned values: cases/interpolate.json, for the tests of src/nn.

    ./interpolate.py            says whether the file would change (then exit code 1)
    ./interpolate.py --write    replaces it

Grids are tensors (rows, columns, channels) of the formula. timm resamples position embeddings with
antialias, the authors' code of Swin its tables without.
"""
import json
import pathlib
import sys

import torch

import formula

PATH = pathlib.Path(__file__).resolve().parent / "cases" / "interpolate.json"
GRIDS = [((7, 7), (9, 9)), ((6, 6), (4, 4)), ((5, 8), (9, 3)), ((3, 7), (7, 3)), ((2, 3), (5, 1)),
         ((1, 4), (3, 2)), ((9, 8), (3, 2))]
CHANNELS = 2


def case(start, end, antialias):
    x = torch.from_numpy(formula.tensor("pos_embed", start + (CHANNELS,)))
    y = torch.nn.functional.interpolate(x.permute(2, 0, 1)[None], size=end, mode="bicubic",
                                        align_corners=False, antialias=antialias)
    return {"from": list(start), "to": list(end), "channels": CHANNELS, "antialias": antialias,
            "values": y[0].permute(1, 2, 0).reshape(-1).tolist()}


def main():
    cases = [case(start, end, antialias) for start, end in GRIDS for antialias in (True, False)]
    text = json.dumps({"format": 1, "kind": "interpolate", "torch": torch.__version__,
                       "cases": cases}) + "\n"
    if "--write" in sys.argv[1:]:
        PATH.write_text(text)
    return 0 if PATH.exists() and PATH.read_text() == text else 1


if __name__ == "__main__":
    sys.exit(main())
