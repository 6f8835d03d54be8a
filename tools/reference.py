#!/usr/bin/env python3
"""What Hugging Face's transformers computes with a model, for `regard verify` to compare with.

    reference.py MODEL --text TEXT [--text ANOTHER …] -o REFERENCE.safetensors
    reference.py MODEL --ids 1,2,3 [--decoder-ids 0,4,5] -o REFERENCE.safetensors
    reference.py MODEL --random [SEED] -o REFERENCE.safetensors
    regard verify MODEL REFERENCE.safetensors

Needs torch, transformers, numpy and safetensors. MODEL is a folder or a name on the hub. Several texts are padded on the
right; `regard verify` leaves out what stands at padding. The file has what the model read (`inputs/ids`, `inputs/mask`,
`inputs/types`, `inputs/decoder_ids`, `inputs/decoder_mask`, `inputs/pixels`), `logits`, every layer's attention weights
(`layers.0.self.weights`, …) and the stream before every layer (`layers.0.residual.before`, …), by the names of regard's
sites.
"""

import argparse
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoTokenizer

ARGUMENTS = {
    "ids": "input_ids",
    "mask": "attention_mask",
    "types": "token_type_ids",
    "decoder_ids": "decoder_input_ids",
    "decoder_mask": "decoder_attention_mask",
    "pixels": "pixel_values",
}


def load(name):
    """The model with the head that its configuration names."""
    config = AutoConfig.from_pretrained(name)
    kinds = config.architectures or sys.exit(f"{name}: config.json names no architecture")
    kind = getattr(transformers, kinds[0], None) or sys.exit(f"transformers has no {kinds[0]}")
    model = kind.from_pretrained(name, attn_implementation="eager", dtype=torch.float32).eval()
    model.config._experts_implementation = "eager"
    return model


def from_texts(model, name, texts, decoder_texts):
    tokenizer = AutoTokenizer.from_pretrained(name)
    tokenizer.padding_side = "right"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    encoded = tokenizer(texts, padding=True, return_tensors="pt")
    inputs = {"ids": encoded["input_ids"], "mask": encoded["attention_mask"]}
    if getattr(model.config, "type_vocab_size", 0) > 1 and "token_type_ids" in encoded:
        inputs["types"] = encoded["token_type_ids"]
    if decoder_texts:
        target = tokenizer(decoder_texts, padding=True, add_special_tokens=False, return_tensors="pt")
        start = torch.full((len(decoder_texts), 1), model.config.decoder_start_token_id)
        inputs["decoder_ids"] = torch.cat([start, target["input_ids"]], 1)
        inputs["decoder_mask"] = torch.cat([torch.ones_like(start), target["attention_mask"]], 1)
    return inputs


def from_ids(ids, decoder_ids):
    row = lambda text: torch.tensor([[int(id) for id in text.split(",")]])
    return {"ids": row(ids), **({"decoder_ids": row(decoder_ids)} if decoder_ids else {})}


def at_random(config, seed, lengths=(9, 5, 7), decoder_lengths=(5, 8, 6)):
    """A padded batch of three, or three pictures."""
    generator = torch.Generator().manual_seed(seed)
    if hasattr(config, "image_size"):
        side = config.image_size
        sides = side if isinstance(side, (list, tuple)) else (side, side)
        return {"pixels": torch.randn(3, config.num_channels, *sides, generator=generator)}

    def batch(lengths):
        mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
        padding = config.pad_token_id or 0
        # RoBERTa counts positions by looking for its padding; Marian's is the last id.
        first, limit = (padding + 1, config.vocab_size) if padding + 1 < config.vocab_size else (0, padding)
        ids = torch.randint(first, limit, mask.shape, generator=generator)
        return ids.where(mask == 1, padding), mask

    ids, mask = batch(lengths)
    if config.model_type == "clip_text_model":  # its end speaks for a text
        ids.scatter_(1, mask.sum(1, keepdim=True) - 1, config.eos_token_id)
    inputs = {"ids": ids, "mask": mask}
    if getattr(config, "type_vocab_size", 0) > 1:
        inputs["types"] = torch.randint(0, config.type_vocab_size, ids.shape, generator=generator) * mask
    if config.is_encoder_decoder:
        inputs["decoder_ids"], inputs["decoder_mask"] = batch(decoder_lengths)
        inputs["decoder_ids"][:, 0] = config.decoder_start_token_id
    return inputs


VECTORS = ("clip_text_model", "clip_vision_model", "siglip_text_model", "siglip_vision_model")


def heads(outputs, model_type):
    """What the heads give, by our names."""
    if "start_logits" in outputs:
        return {"logits": torch.stack([outputs.start_logits, outputs.end_logits], -1)}
    if "prediction_logits" in outputs:
        return {"logits": outputs.prediction_logits, "pair.logits": outputs[1]}
    if model_type in VECTORS:
        return {"vector": outputs[0] if "image_embeds" in outputs or "text_embeds" in outputs else outputs.pooler_output}
    if "logits" not in outputs:
        return {}
    single = model_type == "electra" and outputs.logits.shape == outputs.hidden_states[0].shape[:2]
    return {"logits": outputs.logits[:, :, None] if single else outputs.logits}


def sites(outputs, model_type=""):
    """Everything that is compared, by our names."""
    found = heads(outputs, model_type)
    if "encoder_attentions" in outputs:
        groups = {
            "encoder.layers.{}.self.weights": outputs.encoder_attentions,
            "decoder.layers.{}.self.weights": outputs.decoder_attentions,
            "decoder.layers.{}.cross.weights": outputs.cross_attentions,
            "encoder.layers.{}.residual.before": outputs.encoder_hidden_states[:-1],
            "decoder.layers.{}.residual.before": outputs.decoder_hidden_states[:-1],
        }
    else:
        groups = {
            "layers.{}.self.weights": outputs.attentions,
            "layers.{}.residual.before": outputs.hidden_states[:-1],
        }
    for name, layers in groups.items():
        found |= {name.format(layer): tensor for layer, tensor in enumerate(layers)}
    return found


def main():
    parser = argparse.ArgumentParser(description="What transformers computes with a model.")
    parser.add_argument("model")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--text", action="append")
    group.add_argument("--ids")
    group.add_argument("--random", type=int, nargs="?", const=0, metavar="SEED")
    parser.add_argument("--decoder-text", action="append")
    parser.add_argument("--decoder-ids")
    parser.add_argument("-o", "--out", required=True)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model = load(options.model)
    if options.text:
        inputs = from_texts(model, options.model, options.text, options.decoder_text)
    elif options.ids:
        inputs = from_ids(options.ids, options.decoder_ids)
    else:
        inputs = at_random(model.config, options.random)
    if model.config.is_encoder_decoder and "decoder_ids" not in inputs:
        inputs["decoder_ids"] = torch.full((len(inputs["ids"]), 1), model.config.decoder_start_token_id)
    arguments = {ARGUMENTS[name]: tensor for name, tensor in inputs.items()}
    with torch.no_grad():
        outputs = model(**arguments, output_attentions=True, output_hidden_states=True)
    tensors = {f"inputs/{name}": tensor for name, tensor in inputs.items()} | sites(outputs, model.config.model_type)
    tensors = {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    save_file(tensors, options.out, metadata=versions)


if __name__ == "__main__":
    main()
