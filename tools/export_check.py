#!/usr/bin/env python3
"""Opens models that this program wrote with Hugging Face's transformers, and compares.

    cargo build && cargo run --example write_models -- outputs/models
    tools/export_check.py outputs/models [FOLDER…] [--regard PROGRAM] [--record records/export.md]

For each model in the folders: `from_pretrained` must find every tensor it wants and no other; logits, attention weights and streams on a
padded batch must agree to 1e-4 (tools/reference.py and `regard verify`); and a model that generates must greedily say the
same. --record writes what was found.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from transformers import AutoConfig, AutoTokenizer

ROOT = Path(__file__).resolve().parents[1]
PROMPTS = ["The cat", "Once upon a time the dog", "a mat, and 7 dögs"]
TOKENS = 24

RECORD = """# Models written here, opened by transformers

    cargo run --example write_models -- outputs/models
    for preset in shakespeare-char words-gpt words-llama masked-words classify translate digits; do
      regard train $preset --set train.steps=60 --out outputs/trained/trained-$preset; done   # shakespeare-char: with --data
    tools/export_check.py outputs/models outputs/trained --record records/export.md

transformers {transformers}, torch {torch}. Small models with random weights, and models trained here for 60 steps, opened by
`from_pretrained` of the class that their config.json names: the tensors that it missed or did not expect, the largest
difference of the logits on a padded batch (and of all attention weights and streams), and of {prompts} prompts how many it
continues greedily with the same {tokens} tokens. `ViTModel` is opened with `add_pooling_layer=False`, which a config.json
cannot say.

| model | class | missing or unexpected | logits | everything | same greedy text |
|---|---|---|---|---|---|
{rows}
"""


def load(folder):
    kind = getattr(transformers, AutoConfig.from_pretrained(folder).architectures[0])
    # A configuration cannot say that a ViT has no pooler: those who open it must.
    settings = {"add_pooling_layer": False} if kind is transformers.ViTModel else {}
    model, report = kind.from_pretrained(folder, output_loading_info=True, **settings)
    wrong = [*report["missing_keys"], *report["unexpected_keys"], *report["mismatched_keys"]]
    return model.eval(), wrong


def compare(program, folder, tolerance):
    with tempfile.TemporaryDirectory() as temporary:
        file = f"{temporary}/reference.safetensors"
        subprocess.run([sys.executable, ROOT / "tools/reference.py", folder, "--random", "-o", file], check=True)
        command = [program, "verify", folder, file, "--json", "--tolerance", str(tolerance)]
        result = subprocess.run(command, capture_output=True, text=True)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    if not lines:
        sys.exit(f"{folder}: {result.stderr}")
    logits = [line["difference"] for line in lines if line["site"] == "logits"]
    return logits[0] if logits else None, max(line["difference"] for line in lines), result.returncode == 0


def same_text(program, folder, model):
    """How many prompts are continued with the same text."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    count = 0
    for prompt in PROMPTS:
        try:
            ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        except Exception:  # a tokenizer of the characters of a text knows no others
            prompt = "".join(c if ord(c) < 128 and not c.isdigit() else "o" for c in prompt)
            ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            said = model.generate(ids, do_sample=False, max_new_tokens=TOKENS, attention_mask=torch.ones_like(ids))[0]
        decode = lambda ids: tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        # A continuation decoded alone would lose the space before it.
        theirs = decode(said) if model.config.is_encoder_decoder else decode(said)[len(decode(ids[0])) :]
        command = [program, "generate", folder, prompt, "--greedy", "--no-prompt", "--max-tokens", str(TOKENS)]
        ours = subprocess.run(command, capture_output=True, check=True).stdout.decode()
        if ours.removesuffix("\n") == theirs:
            count += 1
        else:
            print(f"{folder}: {prompt!r}\n  here  {ours!r}\n  there {theirs!r}", file=sys.stderr)
    return count


def main():
    parser = argparse.ArgumentParser(description="Opens this program's models with transformers.")
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--regard", default=ROOT / "target/debug/regard")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    rows, failed = [], []
    # A run keeps its models inside.
    found = [path.parent for folder in options.folders for path in folder.glob("*/config.json")]
    for folder in sorted(found):
        model, wrong = load(folder)
        logits, everything, fine = compare(options.regard, folder, options.tolerance)
        speaks = hasattr(model, "generate") and model.can_generate()
        texts = same_text(options.regard, folder, model) if speaks else None
        cells = [
            folder.name,
            f"`{type(model).__name__}`",
            ", ".join(wrong) or "none",
            "–" if logits is None else f"{logits:.1e}",
            f"{everything:.1e}",
            "–" if texts is None else f"{texts} of {len(PROMPTS)}",
        ]
        rows.append(f"| {' | '.join(cells)} |")
        print(rows[-1], flush=True)
        if wrong or not fine or texts not in (None, len(PROMPTS)):
            failed.append(folder.name)
    if options.record:
        facts = {"prompts": len(PROMPTS), "tokens": TOKENS, "rows": "\n".join(rows)}
        versions = {"transformers": transformers.__version__, "torch": torch.__version__}
        options.record.write_text(RECORD.format(**facts, **versions))
    if failed or not rows:
        sys.exit(f"not the same: {', '.join(failed) or 'there is nothing to compare'}")


if __name__ == "__main__":
    main()
