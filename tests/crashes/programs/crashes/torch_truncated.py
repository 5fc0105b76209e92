"""The file of a tensor becomes shorter; the thread that dies is one of OpenMP.

Truth: {"says": ["SIGBUS", "weights.bin, which is mapped, but the file ends before it: it was truncated", "mul_kernel|VectorizedLoop"], "packages": ["torch"]}
"""

import os

import torch


def step(tensor):
    return (tensor * 2).sum()


with open("weights.bin", "wb") as file:
    file.write(bytes(1 << 24))
tensor = torch.from_file("weights.bin", shared=True, size=1 << 22, dtype=torch.float32)
os.truncate("weights.bin", 4096)
step(tensor)
