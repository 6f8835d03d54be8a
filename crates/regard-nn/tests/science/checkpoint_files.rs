//! Files as they come: shards, other number types, older names, and what is wrong with some.

use crate::golden::Golden;
use crate::numbers::same_bits;
use crate::zoo;
use regard_nn::checkpoint::{self, StoredWeights};
use regard_nn::models::Model;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

/// A checkpoint on the disk that can be spoilt.
pub struct Folder {
    place: tempfile::TempDir,
    pub tensors: Tensors,
    pub config: Map<String, Value>,
}

impl Folder {
    pub fn of(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        checkpoint::save(&*zoo::named(name), folder.path(), &Map::new()).unwrap();
        Self::read(folder)
    }

    /// The model of a golden file.
    pub fn of_golden(golden: &Golden) -> Self {
        let folder = tempfile::tempdir().unwrap();
        golden.write_below("weights/", &folder.path().join("model.safetensors"));
        std::fs::write(folder.path().join("config.json"), &golden.metadata["config"]).unwrap();
        Self::read(folder)
    }

    fn read(folder: tempfile::TempDir) -> Self {
        let bytes = std::fs::read(folder.path().join("model.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let all = file.iter().map(|(name, view)| {
            (name.to_owned(), (view.dtype(), view.shape().to_vec(), view.data().to_vec()))
        });
        Self {
            tensors: all.collect(),
            config: checkpoint::read_config(folder.path()).unwrap(),
            place: folder,
        }
    }

    pub fn path(&self) -> &Path {
        self.place.path()
    }

    fn write(&self) {
        write(&self.path().join("model.safetensors"), &self.tensors);
        let text = serde_json::to_string(&self.config).unwrap();
        std::fs::write(self.path().join("config.json"), text).unwrap();
    }

    pub fn load(&self) -> regard_nn::Result<Box<dyn Model>> {
        self.write();
        Ok(checkpoint::load(self.path())?.model)
    }

    fn refused(&self) -> String {
        self.load().map(|_| ()).unwrap_err().to_string()
    }

    /// The same with every name changed.
    fn renamed(&mut self, rename: impl Fn(&str) -> String) {
        self.tensors =
            std::mem::take(&mut self.tensors).into_iter().map(|(name, t)| (rename(&name), t)).collect();
    }
}

fn write(path: &Path, tensors: &Tensors) {
    let views = tensors
        .iter()
        .map(|(name, (dtype, shape, bytes))| (name, TensorView::new(*dtype, shape.clone(), bytes).unwrap()));
    std::fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

fn same(a: &dyn Model, b: &dyn Model) {
    for ((name, a), (_, b)) in a.parameters().iter().zip(b.parameters()) {
        same_bits(name, a.tensor(), b.tensor());
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn a_model_in_shards() {
    let whole = Folder::of("llama");
    let want = whole.load().unwrap();
    std::fs::remove_file(whole.path().join("model.safetensors")).unwrap();
    let mut map = Map::new();
    for shard in 0..3 {
        let name = format!("model-{}-of-3.safetensors", shard + 1);
        let part: Tensors =
            whole.tensors.iter().skip(shard).step_by(3).map(|(k, v)| (k.clone(), v.clone())).collect();
        map.extend(part.keys().map(|tensor| (tensor.clone(), json!(name))));
        write(&whole.path().join(name), &part);
    }
    let index = whole.path().join("model.safetensors.index.json");
    std::fs::write(&index, json!({"metadata": {}, "weight_map": map}).to_string()).unwrap();
    same(&*checkpoint::load(whole.path()).unwrap().model, &*want);
    let refused = |text: &str| {
        std::fs::write(&index, text).unwrap();
        checkpoint::load(whole.path()).map(|_| ()).unwrap_err().to_string()
    };
    for outside in ["../model.safetensors", "/etc/hostname", "a/../b", "..", ".", "", "a/b"] {
        let error = refused(&json!({"weight_map": {"x": outside}}).to_string());
        assert!(error.ends_with(&format!("names a file outside its folder: {outside:?}")), "{error}");
    }
    let nowhere = refused(&json!({"weight_map": {"x": "nowhere.safetensors"}}).to_string());
    assert!(nowhere.contains("nowhere.safetensors: No such file"), "{nowhere}");
    assert!(refused("{}").ends_with("has no weight_map"));
    assert!(refused("{").contains("is not an index: "));
    assert!(
        refused(r#"{"weight_map": {"x": 5}}"#).ends_with("has a weight_map with something else than names")
    );
    let twice = BTreeMap::from([("a", "model-1-of-3.safetensors"), ("b", "copy.safetensors")]);
    std::fs::copy(whole.path().join("model-1-of-3.safetensors"), whole.path().join("copy.safetensors"))
        .unwrap();
    let error = refused(&json!({"weight_map": twice}).to_string());
    assert!(error.contains("repeats the tensor"), "{error}");
}

#[test]
fn numbers_of_other_types() {
    let exact = Folder::of("bert");
    let want = exact.load().unwrap();
    // f64 holds every f32; bf16 and f16 keep 7 and 10 bits of its fraction, and what follows is cut off here.
    for (dtype, error) in [(Dtype::F64, 0.0), (Dtype::BF16, 1.0 / 128.0), (Dtype::F16, 1.0 / 1024.0)] {
        let mut other = Folder::of("bert");
        for (kind, _, bytes) in other.tensors.values_mut() {
            let values = floats(bytes);
            *kind = dtype;
            *bytes = match dtype {
                Dtype::F64 => values.iter().flat_map(|&x| f64::from(x).to_le_bytes()).collect(),
                Dtype::BF16 => {
                    values.iter().flat_map(|&x| ((x.to_bits() >> 16) as u16).to_le_bytes()).collect()
                }
                _ => values.iter().flat_map(|&x| to_f16(x).to_le_bytes()).collect(),
            };
        }
        let got = other.load().unwrap();
        for ((name, got), (_, want)) in got.parameters().iter().zip(want.parameters()) {
            for (got, want) in got.tensor().values().iter().zip(want.tensor().values().iter()) {
                // Below its smallest normal number, f16 has steps of 2⁻²⁴.
                let step = if dtype == Dtype::F16 { 2_f32.powi(-24) } else { 0.0 };
                assert!((got - want).abs() <= want.abs() * error + step, "{name}: {got}, expected {want}");
            }
        }
    }
    let mut whole_numbers = Folder::of("bag");
    let (kind, _, _) = whole_numbers.tensors.get_mut("words.weight").unwrap();
    *kind = Dtype::I32;
    let error = whole_numbers.refused();
    assert_eq!(error, "words.weight is stored as I32; f32, f16, bf16 and f64 can be read");
}

/// Half precision by cutting, for numbers of ordinary size or 0.
fn to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let exponent = (bits >> 23 & 255) as i32 - 112;
    let sign = (bits >> 16 & 0x8000) as u16;
    match exponent {
        1..=30 => sign | (exponent as u16) << 10 | (bits >> 13 & 0x3ff) as u16,
        _ => sign | (x.abs() * 2_f32.powi(24)) as u16,
    }
}

#[test]
fn half_precision_bit_by_bit() {
    let cases: [(u16, f32); 12] = [
        (0x3c00, 1.0),
        (0xc000, -2.0),
        (0x7bff, 65_504.0),
        (0x0001, 2.0_f32.powi(-24)),
        (0x03ff, 1023.0 * 2.0_f32.powi(-24)),
        (0x0400, 2.0_f32.powi(-14)),
        (0x8000, -0.0),
        (0x8001, -2.0_f32.powi(-24)),
        (0x3555, 0.333_251_95),
        (0x7c00, f32::INFINITY),
        (0xfc00, f32::NEG_INFINITY),
        (0x0000, 0.0),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("halves.safetensors");
    let bytes: Vec<u8> =
        cases.iter().map(|&(bits, _)| bits).chain([0x7e00]).flat_map(u16::to_le_bytes).collect();
    write(&path, &Tensors::from([("x".to_owned(), (Dtype::F16, vec![13], bytes))]));
    let stored = StoredWeights::from_files(&[&path]).unwrap();
    let read = stored.read("x").unwrap().unwrap();
    for (&(bits, want), got) in cases.iter().zip(read.values().iter()) {
        assert_eq!(got.to_bits(), want.to_bits(), "{bits:#06x}");
    }
    assert!(read.values()[12].is_nan());
    assert!(stored.read("y").unwrap().is_none() && stored.contains("x"));
    assert_eq!((stored.shape("x"), stored.names().count()), (Some(&[13][..]), 1));
}

#[test]
fn names_of_other_times() {
    let want = Folder::of("bert").load().unwrap();
    // Converted from TensorFlow, without the name of the body, with what training leaves behind.
    let mut older = Folder::of("bert");
    older.renamed(|name| {
        let name = name.strip_prefix("bert.").unwrap_or(name);
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
    });
    let ids = (Dtype::I64, vec![1, 9], vec![0; 72]);
    older.tensors.insert("embeddings.position_ids".to_owned(), ids);
    older.tensors.insert("cls.seq_relationship.weight".to_owned(), (Dtype::F32, vec![2, 16], vec![0; 128]));
    same(&*older.load().unwrap(), &*want);

    let want = Folder::of("gpt").load().unwrap();
    let mut bare = Folder::of("gpt");
    bare.renamed(|name| name.replace("transformer.", ""));
    bare.tensors.insert("h.0.attn.bias".to_owned(), (Dtype::U8, vec![1, 1, 9, 9], vec![1; 81]));
    bare.tensors.insert("lm_head.weight".to_owned(), bare.tensors["wte.weight"].clone());
    same(&*bare.load().unwrap(), &*want);
}

#[test]
fn weights_that_do_not_fit_are_listed() {
    let mut folder = Folder::of("gpt");
    folder.tensors.remove("transformer.h.1.ln_2.bias");
    folder.tensors.get_mut("transformer.wpe.weight").unwrap().1 = vec![16, 9];
    folder.tensors.insert("transformer.h.2.ln_1.bias".to_owned(), (Dtype::F32, vec![16], vec![0; 64]));
    assert_eq!(
        folder.refused(),
        "the weights do not fit the configuration: transformer.wpe.weight has shape [16×9], expected [9×16]; \
         transformer.h.1.ln_2.bias is missing, expected [16]; transformer.h.2.ln_1.bias [16] is extra"
    );
    // A long list is cut.
    let mut empty = Folder::of("gpt");
    empty.tensors.clear();
    let error = empty.refused();
    assert!(error.ends_with("; and 16 more") && error.matches("is missing").count() == 12, "{error}");
    let mut deep = Folder::of("gpt");
    deep.config.insert("n_layer".to_owned(), json!(1 << 29));
    let error = deep.refused();
    assert!(error.contains("transformer.h.2.ln_1.weight is missing") && error.ends_with(" more"), "{error}");
}

#[test]
fn configurations_that_are_not_understood_are_refused() {
    let changed = |name: &str, key: &str, value: Value| {
        let mut folder = Folder::of(name);
        folder.config.insert(key.to_owned(), value);
        folder.refused()
    };
    assert_eq!(
        changed("gpt", "model_type", json!("mamba")),
        "models of type \"mamba\" are not supported; the nearest supported type is llama (regard models lists all, \
         docs/families.md shows how to add one)"
    );
    assert_eq!(changed("gpt", "model_type", json!(7)), "config.json names no model_type, such as \"gpt2\"");
    let unknown = changed("bag", "model_type", json!("regard-x"));
    assert!(unknown.starts_with("config.json describes a regard-x, which cannot be built"), "{unknown}");
    assert_eq!(
        changed("gpt", "use_magic", json!(3)),
        "config.json has use_magic = 3, which this program does not implement; if it says nothing about what the model \
         computes, remove it"
    );
    assert_eq!(
        changed("bert", "position_embedding_type", json!("relative_key")),
        "config.json: position_embedding_type is \"relative_key\", of which only \"absolute\" is implemented"
    );
    assert_eq!(changed("gpt", "n_head", json!(0)), "config.json: n_head is 0, which cannot be a size");
    assert_eq!(changed("gpt", "n_head", Value::Null), "config.json has no n_head");
    let text = changed("gpt", "n_head", json!("two"));
    assert!(text.starts_with("config.json: n_head is \"two\": invalid type: string"), "{text}");
    assert!(
        changed("gpt", "activation_function", json!("mish"))
            .starts_with("config.json: activation_function is \"mish\"")
    );
    assert_eq!(
        changed("t5", "feed_forward_proj", json!("gated-x")),
        "config.json: a feed-forward layer with \"x\" is not implemented"
    );
    let other = changed("llama", "rope_parameters", json!({"rope_type": "proportional", "factor": 4.0}));
    assert_eq!(
        other,
        "config.json: rotary scaling \"proportional\" is not implemented; default, linear, dynamic, yarn, longrope and \
         llama3 are"
    );
    assert_eq!(
        changed("llama", "rope_parameters", json!({"rope_type": "linear", "factor": 0.0})),
        "rotary positions: the factor must be a number above 0, got 0"
    );
    assert_eq!(
        changed("vit", "image_size", json!("big")),
        "config.json: image_size must be one or two numbers of pixels"
    );
    let own = changed("bag", "regard", json!({"vocabulary": 13, "colour": "red"}));
    assert!(own.contains("cannot be built from its settings: unknown field `colour`"), "{own}");
    assert_eq!(changed("bag", "regard", Value::Null), "config.json has no \"regard\" with the model's sizes");
}

/// Keys of published configurations that other programs, or other times, put there.
#[test]
fn what_says_nothing_about_the_result_is_passed_over() {
    for (name, key, value) in [
        ("gpt", "n_special", json!(0)),
        ("gpt", "predict_special_tokens", json!(true)),
        ("gpt", "is_decoder", json!(true)),
        ("bert", "sbert_ce_default_activation_function", json!("torch.nn.modules.linear.Identity")),
        ("bert", "num_labels", json!(3)),
        ("llama", "is_llama_config", json!(true)),
        ("llama", "unsloth_version", json!("2024.9")),
        ("llama", "transformers.js_config", json!({"dtype": "q4"})),
        ("llama", "partial_rotary_factor", json!(1)),
    ] {
        let original_folder = Folder::of(name);
        let want = original_folder.load().unwrap();
        let mut folder = Folder::of(name);
        folder.config.insert(key.to_owned(), value);
        same(&*folder.load().unwrap_or_else(|error| panic!("{key}: {error}")), &*want);
    }
}

/// A head whose tensors look like those of another, and classes that are not as many as their names.
#[test]
fn heads_that_are_not_implemented_are_refused() {
    for (name, architecture) in [
        ("bert", "BertForMultipleChoice"),
        ("bert", "BertLMHeadModel"),
        ("gpt", "GPT2DoubleHeadsModel"),
        ("t5", "T5ForTokenClassification"),
    ] {
        let mut folder = Folder::of(name);
        folder.config.insert("architectures".to_owned(), json!([architecture]));
        let problem = folder.refused();
        assert!(problem.starts_with(&format!("{architecture} is not supported; of ")), "{problem}");
    }
    let mut folder = Folder::of("vit");
    folder
        .config
        .insert("id2label".to_owned(), json!({"0": "a", "1": "b", "2": "c", "3": "d", "4": "e", "5": "f"}));
    let problem = folder.refused();
    assert!(
        problem.starts_with("config.json names 6 classes in id2label, but the classifier has "),
        "{problem}"
    );
}

/// Tied weights may be stored twice, but must be the same; and the copy may be the one that is stored.
#[test]
fn copies_are_the_same_or_refused() {
    let other = |folder: &Folder, name: &str| {
        let (dtype, shape, mut bytes) = folder.tensors[name].clone();
        bytes[3] ^= 1;
        (dtype, shape, bytes)
    };
    for (name, original, copy) in [
        ("gpt", "transformer.wte.weight", "lm_head.weight"),
        ("bert", "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
        ("bert", "cls.predictions.bias", "cls.predictions.decoder.bias"),
        ("t5", "shared.weight", "encoder.embed_tokens.weight"),
        ("t5", "shared.weight", "lm_head.weight"),
    ] {
        // A model reads its weights where they lie: one that is kept needs a folder of its own.
        let original_folder = Folder::of(name);
        let want = original_folder.load().unwrap();
        let mut folder = Folder::of(name);
        folder.tensors.insert(copy.to_owned(), folder.tensors[original].clone());
        same(&*folder.load().unwrap(), &*want);
        folder.tensors.insert(copy.to_owned(), other(&folder, original));
        let problem = folder.refused();
        assert!(problem.contains(&format!("{copy} differs from {original}")), "{problem}");
    }
    let original_folder = Folder::of("t5");
    let want = original_folder.load().unwrap();
    let mut folder = Folder::of("t5");
    let shared = folder.tensors.remove("shared.weight").unwrap();
    folder.tensors.insert("decoder.embed_tokens.weight".to_owned(), shared);
    same(&*folder.load().unwrap(), &*want);
}

#[test]
fn the_last_word_on_a_t5_is_that_of_the_keys_transformers_listens_to() {
    let form = |changes: &[(&str, Value)]| {
        let mut folder = Folder::of("t5");
        for (key, value) in changes {
            folder.config.insert((*key).to_owned(), value.clone());
        }
        let t5 = folder.load().unwrap();
        let form = t5.form().unwrap();
        let [reads, answers] = [&form.encoder, &form.decoder]
            .map(|stack| stack.as_ref().unwrap().layers[0].feed_forward.activation);
        assert_eq!(reads, answers);
        (reads, form.output.tokens.unwrap().scale != 1.0)
    };
    let usual = form(&[]);
    let changed = form(&[("dense_act_fn", json!("silu"))]);
    assert_ne!(usual.0, changed.0);
    assert!(usual.1 && !form(&[("scale_decoder_outputs", Value::Null)]).1);
}

#[test]
fn two_forms_of_rotary_scaling_that_disagree_are_refused() {
    let mut folder = Folder::of("llama");
    folder.config.insert("rope_scaling".to_owned(), json!({"rope_type": "linear", "factor": 2.0}));
    folder.config.insert("rope_parameters".to_owned(), json!({"rope_type": "default", "rope_theta": 1e4}));
    assert_eq!(folder.refused(), "config.json has both rope_scaling and rope_parameters: remove one");
    folder.config.remove("rope_scaling");
    folder.config.insert("rope_parameters".to_owned(), json!({"rope_type": "linear"}));
    assert_eq!(folder.refused(), "config.json has no factor");
}

#[cfg(unix)]
#[test]
fn a_pipe_is_no_file_of_weights() {
    let folder = Folder::of("gpt");
    folder.load().unwrap();
    let weights = folder.path().join("model.safetensors");
    std::fs::remove_file(&weights).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&weights).status().unwrap().success());
    let problem = checkpoint::load(folder.path()).map(|_| ()).unwrap_err().to_string();
    assert!(problem.ends_with("model.safetensors: is not a file"), "{problem}");
}

#[test]
fn folders_that_are_no_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    let refused = || checkpoint::load(folder.path()).map(|_| ()).unwrap_err().to_string();
    assert!(refused().contains("config.json: No such file"));
    let config = folder.path().join("config.json");
    for (bytes, text) in [
        (&b"{"[..], "is not a configuration: EOF"),
        (b"[1]", "a JSON object was expected"),
        (b"\xff\xfe", "is not a configuration: "),
    ] {
        std::fs::write(&config, bytes).unwrap();
        assert!(refused().contains(text), "{}", refused());
    }
    std::fs::write(&config, r#"{"model_type": "gpt2"}"#).unwrap();
    assert!(refused().ends_with("has no model.safetensors (nor an index of shards)"));
    std::fs::write(folder.path().join("pytorch_model.bin"), b"x").unwrap();
    let text = refused();
    assert!(text.contains("pickle") && text.contains("such as AutoModelForCausalLM"), "{text}");
    // The class that the configuration names keeps its head.
    let named = r#"{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}"#;
    std::fs::write(&config, named).unwrap();
    assert!(
        refused().ends_with("GPT2LMHeadModel.from_pretrained(folder).save_pretrained(folder)"),
        "{}",
        refused()
    );
    std::fs::remove_file(&config).unwrap();
    std::fs::create_dir(&config).unwrap();
    assert!(refused().contains("config.json: "), "a folder is no file");
}
