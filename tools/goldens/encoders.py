"""Encoders: models that read in both directions."""

import torch
from goldens.case import NOTHING, build, classes, classified, encoder_inputs, masked, record, run
from torch.nn import functional as F
from transformers import (
    AlbertConfig,
    AlbertForPreTraining,
    AlbertForSequenceClassification,
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertForSequenceClassification,
    BertModel,
    CamembertConfig,
    CamembertForQuestionAnswering,
    DebertaV2Config,
    DebertaV2ForMaskedLM,
    DebertaV2ForSequenceClassification,
    DebertaV2ForTokenClassification,
    DistilBertConfig,
    DistilBertForMaskedLM,
    DistilBertForSequenceClassification,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    ElectraForSequenceClassification,
    ModernBertConfig,
    ModernBertForMaskedLM,
    ModernBertForSequenceClassification,
    ModernBertForTokenClassification,
    MPNetConfig,
    MPNetForMaskedLM,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForSequenceClassification,
    XLMRobertaConfig,
    XLMRobertaForTokenClassification,
)


def tagged(case, model, lengths, count, with_types=False):
    """A class for each token; a single logit has no axis of its own."""
    inputs = encoder_inputs(case, model.config, lengths, with_types)
    labels = case.ids(count, *inputs["ids"].shape).where(inputs["mask"] == 1, NOTHING)
    inputs["labels"] = labels
    outputs = run(model, inputs)
    logits = outputs.logits
    case.store("logits", logits if logits.dim() == 3 else logits[:, :, None])
    record(case, model, inputs, outputs, outputs.loss)


def answered(case, model, lengths):
    """The first and the last token of an answer: labels are (B, 2), logits (B, T, 2). The least likely are right."""
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None  # padding competes for the ends, and has a gradient
    inputs = encoder_inputs(case, model.config, lengths, False)
    outputs = run(model, inputs)
    logits = torch.stack([outputs.start_logits, outputs.end_logits], -1)
    labels = logits.detach().masked_fill(inputs["mask"][:, :, None] == 0, torch.inf).argmin(1)
    loss = sum(F.cross_entropy(logits[:, :, end], labels[:, end]) for end in (0, 1)) / 2
    case.store("logits", logits)
    # A shift of all positions is one that no softmax over them notices.
    record(case, model, inputs, outputs, loss, ("qa_outputs.bias", "layer.1.output.LayerNorm.bias"))
    case.store("inputs/labels", labels)


def paired(case, model, lengths):
    """Masked words, and two classes of a pair of sentences: `pair` and `inputs/pair_labels`."""
    inputs = encoder_inputs(case, model.config, lengths, True)
    chosen = case.mask(*inputs["ids"].shape) & (inputs["mask"] == 1)
    labels = case.ids(model.config.vocab_size, *inputs["ids"].shape).where(chosen, NOTHING)
    pair_labels = torch.arange(len(lengths)) % 2
    outputs = run(model, inputs)
    words, pair = outputs.prediction_logits, outputs[1]
    loss = F.cross_entropy(words.flatten(0, 1), labels.flatten()) + F.cross_entropy(pair, pair_labels)
    case.store("logits", words)
    case.store("pair", pair)
    record(case, model, inputs, outputs, loss)
    case.store("inputs/labels", labels)
    case.store("inputs/pair_labels", pair_labels)


def bert_config(**settings):
    sizes = {"hidden_size": 18, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 35}
    return BertConfig(**{**sizes, "vocab_size": 47, "max_position_embeddings": 13, **settings})


def bert_mlm(case):
    model = build(case, BertForMaskedLM, bert_config())
    masked(case, model, [6, 9, 4], with_types=True)


def bert_classifier(case):
    config = bert_config(**classes(3), type_vocab_size=3, num_attention_heads=6)
    model = build(case, BertForSequenceClassification, config)
    inputs = classified(case, model, [7, 5, 8], with_types=True)
    case.store("pooled", run(model.bert, inputs).pooler_output)


def bert_base(case):
    """No head: the loss is Σ pooled·upstream + Σ last states·upstream, at real positions."""
    config = bert_config(hidden_size=15, intermediate_size=22, hidden_act="gelu_new", layer_norm_eps=1e-5)
    model = build(case, BertModel, config)
    inputs = encoder_inputs(case, config, [5, 8], with_types=True)
    outputs = run(model, inputs)
    of_pooled = case.normal(*outputs.pooler_output.shape)
    of_states = case.normal(*outputs.last_hidden_state.shape) * inputs["mask"][:, :, None]
    loss = (outputs.pooler_output * of_pooled).sum() + (outputs.last_hidden_state * of_states).sum()
    record(case, model, inputs, outputs, loss)
    case.store("pooled", outputs.pooler_output)
    case.store("inputs/pooled_upstream", of_pooled)
    case.store("inputs/hidden_upstream", of_states)


def bert_pretraining(case):
    paired(case, build(case, BertForPreTraining, bert_config(hidden_size=12, intermediate_size=19)), [6, 8, 4])


def roberta_config(**settings):
    sizes = {"hidden_size": 18, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 31}
    sizes |= {"vocab_size": 43, "max_position_embeddings": 12, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
    return RobertaConfig(**sizes, **settings)


def roberta(case):
    masked(case, build(case, RobertaForMaskedLM, roberta_config()), [5, 9, 7])


def roberta_classifier(case):
    config = roberta_config(**classes(4))
    classified(case, build(case, RobertaForSequenceClassification, config), [8, 3, 6])


# Small sizes that all families of BERT's kind understand.
SMALL = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 19}
SMALL |= {"vocab_size": 31, "max_position_embeddings": 13}


def xlm_roberta(case):
    """Padding with another id than RoBERTa's."""
    others = {"type_vocab_size": 1, "pad_token_id": 2, "layer_norm_eps": 1e-5, "hidden_act": "relu"}
    config = XLMRobertaConfig(**SMALL, **others, num_labels=5)
    tagged(case, build(case, XLMRobertaForTokenClassification, config), [7, 4, 8], 5)


def camembert(case):
    config = CamembertConfig(**{**SMALL, "hidden_size": 15}, type_vocab_size=2)
    answered(case, build(case, CamembertForQuestionAnswering, config, deviation=0.3), [6, 9, 5])


def electra_config(**settings):
    return ElectraConfig(**SMALL, embedding_size=7, type_vocab_size=3, **settings)


def electra_generator(case):
    model = build(case, ElectraForMaskedLM, electra_config(hidden_act="relu"), deviation=0.4)
    masked(case, model, [6, 9, 4], with_types=True)


def electra_discriminator(case):
    model = build(case, ElectraForPreTraining, electra_config(hidden_act="gelu_new"), deviation=0.5)
    tagged(case, model, [5, 8, 7], 2, with_types=True)


def electra_classifier(case):
    """Embeddings as wide as the model, which are not projected."""
    config = ElectraConfig(**SMALL, embedding_size=12, **classes(4))
    classified(case, build(case, ElectraForSequenceClassification, config), [8, 3, 6])


def albert_config(**settings):
    return AlbertConfig(**{**SMALL, "num_hidden_layers": 3}, embedding_size=7, **settings)


def albert(case):
    paired(case, build(case, AlbertForPreTraining, albert_config(type_vocab_size=3), deviation=0.45), [5, 7, 9])


def albert_classifier(case):
    """A projection between equal widths is one, too."""
    settings = {"embedding_size": 12, "hidden_act": "relu", "layer_norm_eps": 1e-4}
    config = AlbertConfig(**SMALL, **settings, **classes(3))
    classified(case, build(case, AlbertForSequenceClassification, config), [8, 5, 6], with_types=True)


def distilbert_config(**settings):
    sizes = {"dim": 18, "n_layers": 2, "n_heads": 3, "hidden_dim": 29, "vocab_size": 41}
    return DistilBertConfig(**sizes, max_position_embeddings=11, **settings)


def distilbert(case):
    masked(case, build(case, DistilBertForMaskedLM, distilbert_config()), [8, 5, 6])


def distilbert_classifier(case):
    config = distilbert_config(**classes(3))
    classified(case, build(case, DistilBertForSequenceClassification, config), [4, 9, 6])


def modernbert_config(**settings):
    """Local layers that see two positions to each side, with a base of rotary positions of their own."""
    kinds = {"full_attention": 500.0, "sliding_attention": 40.0}
    rotary = {kind: {"rope_type": "default", "rope_theta": base} for kind, base in kinds.items()}
    layers = ["full_attention", "sliding_attention", "full_attention"]
    ids = {f"{name}_token_id": number for number, name in enumerate(("pad", "bos", "eos", "cls", "sep"))}
    sizes = {**SMALL, "hidden_size": 12, "num_attention_heads": 2, "num_hidden_layers": 3, "local_attention": 4}
    return ModernBertConfig(**{**sizes, **ids, "layer_types": layers, "rope_parameters": rotary, **settings})


def modernbert(case):
    masked(case, build(case, ModernBertForMaskedLM, modernbert_config(), deviation=0.4), [6, 9, 5])


def modernbert_classifier(case):
    """The mean of all tokens, biases everywhere, and a local layer first."""
    biases = {f"{part}_bias": True for part in ("norm", "attention", "mlp", "classifier")}
    layers = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "classifier_pooling": "mean"}
    config = modernbert_config(**biases, **layers, **classes(3), hidden_activation="silu", classifier_activation="relu")
    classified(case, build(case, ModernBertForSequenceClassification, config, deviation=0.4), [8, 5, 6])


def modernbert_tagger(case):
    config = modernbert_config(num_labels=4, num_hidden_layers=1, layer_types=["full_attention"], norm_eps=1e-4)
    tagged(case, build(case, ModernBertForTokenClassification, config, deviation=0.4), [7, 4, 8], 4)


def mpnet(case):
    config = MPNetConfig(**SMALL, hidden_act="relu", layer_norm_eps=1e-5)
    masked(case, build(case, MPNetForMaskedLM, config, deviation=0.4), [6, 9, 5])


def deberta_config(**settings):
    """As v3 has it: distances in buckets, a norm of their vectors, no positions in the embeddings."""
    both = {"relative_attention": True, "pos_att_type": "p2c|c2p", "max_relative_positions": 12}
    v3 = {"position_buckets": 4, "norm_rel_ebd": "layer_norm", "share_att_key": True, "position_biased_input": False}
    return DebertaV2Config(**{**SMALL, **both, **v3, **settings})


def deberta(case):
    masked(case, build(case, DebertaV2ForMaskedLM, deberta_config(), deviation=0.45), [6, 11, 5])


def deberta_classifier(case):
    """Projections of their own for positions, which embeddings have, too."""
    apart = {"share_att_key": False, "position_biased_input": True, "type_vocab_size": 3, "pooler_hidden_act": "tanh"}
    config = deberta_config(**apart, norm_rel_ebd="none", position_buckets=6, pooler_hidden_size=12, **classes(3))
    classified(case, build(case, DebertaV2ForSequenceClassification, config, deviation=0.4), [10, 5, 8], with_types=True)


def deberta_tagger(case):
    """Exact distances, of which those beyond the table are as far as it, and one kind of scores."""
    config = deberta_config(position_buckets=-1, max_relative_positions=4, pos_att_type=["c2p"], norm_rel_ebd="none", num_labels=4)
    tagged(case, build(case, DebertaV2ForTokenClassification, config, deviation=0.4), [9, 6, 7], 4)


# What docs/fidelity.md calls each.
CASES = {
    bert_mlm: "BERT, masked words",
    bert_classifier: "BERT, classes",
    bert_base: "BERT without a head",
    bert_pretraining: "BERT, masked words and next sentence",
    roberta: "RoBERTa, masked words",
    roberta_classifier: "RoBERTa, classes",
    distilbert: "DistilBERT, masked words",
    distilbert_classifier: "DistilBERT, classes",
    xlm_roberta: "XLM-RoBERTa, classes of tokens",
    camembert: "CamemBERT, question answering",
    electra_generator: "ELECTRA, generator",
    electra_discriminator: "ELECTRA, discriminator",
    electra_classifier: "ELECTRA, classes",
    albert: "ALBERT, masked words and sentence order",
    albert_classifier: "ALBERT, classes",
    modernbert: "ModernBERT, masked words",
    modernbert_classifier: "ModernBERT, classes",
    modernbert_tagger: "ModernBERT, classes of tokens",
    mpnet: "MPNet",
    deberta: "DeBERTa v3, masked words",
    deberta_classifier: "DeBERTa v2, classes",
    deberta_tagger: "DeBERTa v2, classes of tokens, exact distances",
}
