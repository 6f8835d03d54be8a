"""Registers and spills of every kernel in many variants, for sm_80 and sm_90a. Needs no GPU."""

import re
from concurrent.futures import ThreadPoolExecutor

import nvrtc
from problem import HEADERS, KERNELS, Case

PROPERTIES = re.compile(
    r"Function properties for (\w+)\s.*?(\d+) bytes stack frame, (\d+) bytes spill stores.*?Used (\d+) registers", re.S
)
EVERYTHING = dict(causal=True, key_mask=True, bias="distance", soft_cap=1.0, sink=True, dropout=0.1)


def variants():
    for width in (64, 128):
        sizes = dict(width=width, value_width=width)
        yield Case(**sizes)
        for feature in (
            dict(causal=True), dict(key_mask=True), dict(bias="dense"), dict(bias="distance"), dict(soft_cap=1.0),
            dict(pattern="window"), dict(dropout=0.1), dict(causal=True, dropout=0.1), dict(causal=True, dropout=0.1, recorded=True), EVERYTHING,
            dict(EVERYTHING, pattern="window"),
        ):  # fmt: skip
            yield Case(**sizes, **feature)
    for width in (16, 48, 80, 256):
        yield Case(width=width, value_width=width, causal=True)


def report(file, case, architecture):
    options = [*case.options(architecture), "--ptxas-options=-v"]
    _, log = nvrtc.compile(KERNELS / file, options, HEADERS)
    # Products of a warpgroup that wait for each other.
    if "serialized" in log:
        raise RuntimeError(f"{file} {' '.join(options)}\n{log}")
    return [(match[1], int(match[4]), int(match[2]), int(match[3])) for match in PROPERTIES.finditer(log)]


def is_usual(case):
    """Causal attention as GPTs have it, and padding as encoders have it."""
    return case.width in (64, 128) and case.differences().split(" ", 3)[3] in ("causal", "key-mask")


def main(wanted, few=False):
    """Prints a line for each kernel, variant and architecture; returns how many of the tensor core kernels spill at widths 64 and 128."""
    work = []
    for path in sorted(KERNELS.glob("*.cu")):
        for architecture in ("sm_80", "sm_90a"):
            for case in variants():
                engine = path.name.split("_")[0]
                bf16 = engine in ("mma", "wgmma")
                case = Case(**{**case.__dict__, "engine": engine, "bf16": bf16})
                if case.is_supported(architecture):
                    work.append((path.name, bf16, case, architecture))
    work = [item for item in work if all(word in f"{item[0]} {item[3]} {item[2].differences()}" for word in wanted)]
    work = [item for item in work if not few or is_usual(item[2])]
    with ThreadPoolExecutor() as pool:
        reports = list(pool.map(lambda item: report(item[0], *item[2:]), work))
    spills = 0
    for (_, bf16, case, architecture), kernels in zip(work, reports):
        variant = case.differences().split(" ", 3)
        label = f"{'bf16' if bf16 else 'f32'} {case.width} {variant[3]}"
        for name, registers, stack, spilled in kernels:
            spills += bf16 and case.width in (64, 128) and stack > 0
            memory = f", {stack} bytes of stack, {spilled} spilled" * bool(stack)
            print(f"{architecture:<7}{name:<30}{label:<80}{registers:>4} registers{memory}")
    print(f"{spills} bf16 kernels of width 64 or 128 spill")
    return spills
