"""Vision: models that read pictures."""

from goldens.case import build, classes, encoder_inputs, record, record_task, run
from transformers import (
    CLIPTextConfig,
    CLIPTextModelWithProjection,
    CLIPVisionConfig,
    CLIPVisionModelWithProjection,
    DeiTConfig,
    DeiTForImageClassification,
    DeiTForImageClassificationWithTeacher,
    Dinov2Config,
    Dinov2ForImageClassification,
    Dinov2Model,
    Dinov2WithRegistersConfig,
    Dinov2WithRegistersForImageClassification,
    SiglipTextConfig,
    SiglipTextModel,
    SiglipVisionConfig,
    SiglipVisionModel,
    ViTConfig,
    ViTForImageClassification,
)


def vit(case):
    """Three patches high and two wide."""
    sizes = {"hidden_size": 18, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 31}
    image = {"image_size": [12, 8], "patch_size": 4, "num_channels": 3}
    config = ViTConfig(**sizes, **image, **classes(5))
    model = build(case, ViTForImageClassification, config)
    record_task(case, model, {"pixels": case.normal(3, 3, 12, 8), "labels": case.ids(5, 3)})


SMALL = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 19}


def pictures(case, side=8):
    return {"pixels": case.normal(3, 3, side, side)}


def deit(case):
    config = DeiTConfig(**SMALL, image_size=8, patch_size=4, hidden_act="relu", **classes(3))
    model = build(case, DeiTForImageClassification, config, deviation=0.4)
    record_task(case, model, {**pictures(case), "labels": case.ids(3, 3)})


def deit_teacher(case):
    """Two tokens, two classifiers, the mean of their scores; the loss is Σ logits·upstream."""
    config = DeiTConfig(**SMALL, image_size=8, patch_size=4, qkv_bias=False, **classes(3))
    model = build(case, DeiTForImageClassificationWithTeacher, config, deviation=0.4)
    upstreamed(case, model, pictures(case), "logits", "logits")


def upstreamed(case, model, inputs, output, name):
    """An output that no labels belong to: the loss is Σ output·upstream."""
    outputs = run(model, inputs)
    values = outputs[output]
    upstream = case.normal(*values.shape)
    case.store(name, values)
    record(case, model, inputs, outputs, (values * upstream).sum())
    case.store("inputs/upstream", upstream)


def without_mask(model):
    """The token that hides patches in training is no part of what is computed."""
    for module in model.modules():
        if getattr(module, "mask_token", None) is not None:
            module.mask_token = None
    return model


def dinov2(case):
    config = Dinov2Config(**SMALL, image_size=12, patch_size=4, mlp_ratio=2, hidden_act="gelu_new", **classes(4))
    model = without_mask(build(case, Dinov2ForImageClassification, config, deviation=0.35))
    record_task(case, model, {**pictures(case, 12), "labels": case.ids(4, 3)})


def dinov2_registers(case):
    sizes = {"image_size": 12, "patch_size": 4, "mlp_ratio": 3, "num_register_tokens": 3}
    config = Dinov2WithRegistersConfig(**SMALL, **sizes, **classes(4))
    model = without_mask(build(case, Dinov2WithRegistersForImageClassification, config, deviation=0.35))
    record_task(case, model, {**pictures(case, 12), "labels": case.ids(4, 3)})


def dinov2_gated(case):
    """A gated feed-forward layer, and no head: the loss is Σ last states·upstream."""
    config = Dinov2Config(**SMALL, image_size=8, patch_size=4, mlp_ratio=2, use_swiglu_ffn=True)
    model = without_mask(build(case, Dinov2Model, config, deviation=0.35))
    upstreamed(case, model, pictures(case), "last_hidden_state", "last")


def clip_vision(case):
    config = CLIPVisionConfig(**SMALL, image_size=8, patch_size=4, projection_dim=7)
    model = build(case, CLIPVisionModelWithProjection, config, deviation=0.4)
    upstreamed(case, model, pictures(case), "image_embeds", "vector")


def clip_text(case):
    """The end of a text, 29, stands inside it in one and at its last position in the others."""
    others = {"vocab_size": 31, "max_position_embeddings": 13, "projection_dim": 7, "eos_token_id": 29, "pad_token_id": 0}
    config = CLIPTextConfig(**SMALL, **others)
    model = build(case, CLIPTextModelWithProjection, config, deviation=0.4)
    inputs = encoder_inputs(case, config, [6, 9, 4], False)
    inputs["ids"][inputs["ids"] == 29] = 30
    for row, end in enumerate((5, 6, 3)):
        inputs["ids"][row, end] = 29
    upstreamed(case, model, inputs, "text_embeds", "vector")


def siglip_text(case):
    """What stands at the last position speaks for a text, even if it is padding."""
    others = {"vocab_size": 31, "max_position_embeddings": 9, "projection_size": 5, "pad_token_id": 0}
    model = build(case, SiglipTextModel, SiglipTextConfig(**SMALL, **others), deviation=0.4)
    inputs = encoder_inputs(case, model.config, [6, 9, 4], False)
    upstreamed(case, model, inputs, "pooler_output", "vector")


def siglip_vision(case):
    """A learned query attends to the patches and speaks for them."""
    config = SiglipVisionConfig(**SMALL, image_size=12, patch_size=4)
    model = build(case, SiglipVisionModel, config, deviation=0.35)
    upstreamed(case, model, pictures(case, 12), "pooler_output", "vector")


# What docs/fidelity.md calls each.
CASES = {
    vit: "ViT",
    deit: "DeiT",
    deit_teacher: "DeiT, distilled",
    dinov2: "DINOv2",
    dinov2_registers: "DINOv2 with registers",
    dinov2_gated: "DINOv2, gated",
    clip_vision: "CLIP, pictures",
    clip_text: "CLIP, texts",
    siglip_vision: "SigLIP, pictures",
    siglip_text: "SigLIP, texts",
}
