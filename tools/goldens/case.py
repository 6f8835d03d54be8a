"""What all golden models share: a case is one file; a model is built, run and recorded."""

import copy
import functools
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from golden_engine import Family
from safetensors.torch import load_file

NOTHING = -100  # the label of a position without loss


def demand(condition, complaint):
    """Stops where a golden value would test nothing, or test the order of a sum."""
    if not condition:
        sys.exit(f"golden_models.py: {complaint}")


class Case(Family):
    """One file."""

    def __init__(self, name):
        super().__init__(name)
        versions = {"transformers": transformers.__version__, "torch": torch.__version__}
        self.metadata = {"case": name, **versions}

    def tokens(self, lengths, limit, first=0, pad=None):
        """Random ids from `first` to below a limit and their mask, padded on the right; with anything if no `pad`."""
        ids = self.ids(limit - first, len(lengths), max(lengths)) + first
        mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
        return (ids if pad is None else ids.where(mask == 1, pad)), mask


@functools.cache
def make(function):
    """The case that a function fills, named after it."""
    case = Case(function.__name__.replace("_", "-"))
    function(case)
    return case


# Hugging Face's names of our inputs:

ARGUMENTS = {
    "ids": "input_ids",
    "mask": "attention_mask",
    "types": "token_type_ids",
    "pixels": "pixel_values",
    "decoder_ids": "decoder_input_ids",
    "decoder_mask": "decoder_attention_mask",
    "labels": "labels",
}


def build(case, kind, config, deviation=0.3):
    """A model whose every parameter matters: wide weights, norms away from 1, biases away from 0."""
    config._attn_implementation = config._experts_implementation = "eager"
    for name, value in vars(config).items():
        if "drop" in name and value is not None:
            setattr(config, name, 0.0)
    model = kind(config).eval()
    own_head = config.model_type == "t5" and not config.scale_decoder_outputs or config.model_type == "mt5"
    if own_head and hasattr(model, "lm_head"):
        # T5 1.1 has an output layer of its own. Transformers 5 ties it, unless a checkpoint says otherwise.
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue  # sines and cosines
        is_norm = parameter.dim() == 1 and name.endswith("weight")
        values = case.normal(*parameter.shape, deviation=0.3 if parameter.dim() == 1 else deviation)
        if "relative_attention_bias" in name or name == "shared.weight":
            values = values / deviation  # T5 is made for embeddings and biases of deviation 1
        parameter.data = values + 1.0 if is_norm else values
    case.model = model
    return model


def run(model, inputs):
    arguments = {ARGUMENTS[name]: value for name, value in inputs.items()}
    return model(**arguments, output_attentions=True, output_hidden_states=True)


def saved(model):
    """The config.json and the tensors of a checkpoint, and the model that Hugging Face reads back from it."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        config = (Path(folder) / "config.json").read_text()
        tensors = load_file(Path(folder) / "model.safetensors")
        again = type(model).from_pretrained(folder, attn_implementation="eager").eval()
        again.config._experts_implementation = "eager"
    return config, tensors, again


def gradients_of(model):
    """The gradients, as the checkpoint of a model of which they are the parameters: with the names of the weights."""
    twin = copy.deepcopy(model)
    for parameter, place in zip(model.parameters(), twin.parameters()):
        if parameter.requires_grad:
            place.data = parameter.grad.clone()
    return saved(twin)[1]


def record(case, model, inputs, outputs, loss, unseen=()):
    """Stores everything but the logits. `unseen` are endings of names that the loss does not depend on."""
    loss.backward()
    case.metadata["config"], weights, again = saved(model)
    with torch.no_grad():
        same = torch.equal(run(again, inputs)[0], outputs[0].detach())
    demand(same, f"{case.name}: the checkpoint does not give the model back")
    gradients = gradients_of(model)
    demand(gradients.keys() == weights.keys(), f"{case.name}: weights and gradients differ in their names")
    for folder, tensors in {"weights": weights, "gradients": gradients, "inputs": inputs}.items():
        for name, tensor in tensors.items():
            case.store(f"{folder}/{name}", tensor)
    case.store("loss", loss)
    for site, tensor in attentions(outputs).items():
        demand(tensor.max() > 0.5, f"{case.name}: nothing to see in {site}")
        case.store(f"attentions/{site}.weights", tensor)
    for name, tensor in hidden(outputs).items():
        case.store(f"hidden/{name}", tensor)
    for name, gradient in gradients.items():
        # A shift of all keys shifts all scores of a query alike, which no softmax notices.
        of_keys = ("key.bias", "key_proj.bias", "k_lin.bias", "k_proj.bias", "attn.k.bias")
        demand(name.endswith((*of_keys, *unseen)) or gradient.abs().max() > 5e-3, f"{case.name}: hardly a gradient of {name}")


def attentions(outputs):
    """By our names of their sites, without the last part."""
    if "encoder_attentions" not in outputs:
        return {f"layers.{i}.self": weights for i, weights in enumerate(outputs.attentions)}
    kinds = {
        "encoder.layers.{}.self": outputs.encoder_attentions,
        "decoder.layers.{}.self": outputs.decoder_attentions,
        "decoder.layers.{}.cross": outputs.cross_attentions,
    }
    return {name.format(i): weights for name, layers in kinds.items() for i, weights in enumerate(layers)}


def hidden(outputs):
    if "encoder_hidden_states" not in outputs:
        # OPT may give back its last states in the width of the embeddings.
        width = outputs.hidden_states[0].shape[-1]
        return {str(i): states for i, states in enumerate(outputs.hidden_states) if states.shape[-1] == width}
    parts = {"encoder": outputs.encoder_hidden_states, "decoder": outputs.decoder_hidden_states}
    return {f"{part}.{i}": states for part, layers in parts.items() for i, states in enumerate(layers)}


def record_task(case, model, inputs):
    """A model with a head, and the loss that it computes from labels."""
    outputs = run(model, inputs)
    case.store("logits", outputs.logits)
    record(case, model, inputs, outputs, outputs.loss)


def causal(case, model, lengths):
    """Language modelling: the labels are the ids (they are shifted inside the model)."""
    ids, mask = case.tokens(lengths, model.config.vocab_size)
    record_task(case, model, {"ids": ids, "mask": mask, "labels": ids.where(mask == 1, NOTHING)})


def masked(case, model, lengths, with_types=False):
    """Masked-word prediction, with a loss at some of the real positions."""
    inputs = encoder_inputs(case, model.config, lengths, with_types)
    chosen = case.mask(*inputs["ids"].shape) & (inputs["mask"] == 1)
    labels = case.ids(model.config.vocab_size, *inputs["ids"].shape)
    record_task(case, model, {**inputs, "labels": labels.where(chosen, NOTHING)})


def classified(case, model, lengths, with_types=False):
    inputs = encoder_inputs(case, model.config, lengths, with_types)
    labels = case.ids(model.config.num_labels, len(lengths))
    record_task(case, model, {**inputs, "labels": labels})
    return inputs


def encoder_inputs(case, config, lengths, with_types):
    """Padded as their tokenizers do it. At a real position, the padding's id would get no gradient from PyTorch."""
    ids, mask = case.tokens(lengths, config.vocab_size, config.pad_token_id + 1, config.pad_token_id)
    types = {"types": case.ids(config.type_vocab_size, *ids.shape) * mask} if with_types else {}
    return {"ids": ids, "mask": mask, **types}


def classes(count):
    return {"num_labels": count, "problem_type": "single_label_classification"}
