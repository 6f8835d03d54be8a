"""Checks and times the attention kernels of crates/regard-tensor/src/cuda/attention without the crate around them.

    python3 tools/attention_kernels check [--engines wgmma-bf16,ffma-f32] [--forward] [word …]
    python3 tools/attention_kernels time [--edit NAME:FILE:OLD=>NEW …]
    python3 tools/attention_kernels registers [word …]

`check` compares every feature with a reference in float64; words select cases ("causal", "x128", "bias-distance"). `time` measures TFLOP/s beside
PyTorch's cuDNN and FlashAttention backends; each --edit adds a variant of the kernels with a text replaced (edits of one name go together).
With REGARD_ATTENTION=one-pass, one kernel for Hopper computes all gradients (a trial).
Both need a CUDA device and PyTorch. `registers` needs only NVRTC (pip install nvidia-cuda-nvrtc) and fails
if a bf16 kernel of width 64 or 128 spills.
"""

import argparse
import sys


def parse_edits(texts):
    variants = {}
    for text in texts:
        name, file, change = text.split(":", 2)
        old, new = change.split("=>")
        variants.setdefault(name, []).append((file, old, new))
    return [(name, tuple(edits)) for name, edits in variants.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["check", "time", "registers"])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--engines", default="wgmma-bf16,mma-bf16,ffma-f32,ffma-bf16")
    parser.add_argument("--forward", action="store_true", help="check the forward pass alone")
    parser.add_argument("--few", action="store_true", help="registers: a few variants alone")
    parser.add_argument("--seed", type=int, help="repeat the inputs of an earlier check")
    parser.add_argument("--edit", action="append", default=[])
    arguments = parser.parse_args()
    if arguments.command == "registers":
        import registers

        sys.exit(registers.main(arguments.words, arguments.few) > 0)
    from driver import Driver

    if arguments.command == "time":
        import speed

        speed.main(Driver(), parse_edits(arguments.edit))
    else:
        import check

        passes = ("forward",) if arguments.forward else check.PASSES
        sys.exit(check.main(Driver(), arguments.engines.split(","), arguments.words, passes, arguments.seed) > 0)


if __name__ == "__main__":
    main()
