//! Weights of 16 bits stay as they are in their file, and give the bits of the same weights in f32.

use crate::checkpoint_files::Folder;
use crate::golden::Golden;
use crate::numbers::{ids, same_bits};
use crate::zoo;
use regard_nn::models::{Inputs, Model};
use regard_nn::tensor::{DataType, Tensor};
use regard_nn::{Context, Probe, checkpoint};
use safetensors::Dtype;

/// The upper halves of f32 values, as bf16 or as the f32 values they stand for.
fn cut(bytes: &[u8], narrow: bool) -> Vec<u8> {
    let upper = |word: &[u8]| [word[2], word[3]];
    match narrow {
        true => bytes.chunks_exact(4).flat_map(upper).collect(),
        false => bytes.chunks_exact(4).flat_map(|word| [0, 0, word[2], word[3]]).collect(),
    }
}

/// A model with its weights cut to 16 bits, from a file of bf16 and from one of f32; and the folders, which are mapped.
struct Both {
    narrow: Box<dyn Model>,
    wide: Box<dyn Model>,
    _folders: [Folder; 2],
}

fn both(folder: impl Fn() -> Folder) -> Both {
    let cut = |narrow: bool| {
        let mut folder = folder();
        for (dtype, _, bytes) in folder.tensors.values_mut().filter(|(dtype, ..)| *dtype == Dtype::F32) {
            *bytes = cut(bytes, narrow);
            *dtype = if narrow { Dtype::BF16 } else { Dtype::F32 };
        }
        (folder.load().unwrap(), folder)
    };
    let ((narrow, first), (wide, second)) = (cut(true), cut(false));
    Both { narrow, wide, _folders: [first, second] }
}

/// The type of the parameters with two axes and more, which is all that takes memory.
fn type_of_matrices(model: &dyn Model) -> Vec<DataType> {
    let all = model.parameters().into_iter().map(|(_, parameter)| parameter.tensor());
    let mut types: Vec<DataType> =
        all.filter(|tensor| tensor.shape().rank() > 1).map(Tensor::data_type).collect();
    types.dedup();
    types
}

#[test]
fn models_of_every_kind_give_the_bits_of_widened_weights() {
    for specimen in zoo::all() {
        let name = specimen.name;
        let Both { narrow, wide, _folders } = both(|| Folder::of(name));
        assert_eq!(
            (type_of_matrices(&*narrow), type_of_matrices(&*wide)),
            (vec![DataType::Bf16], vec![DataType::F32]),
            "{name}"
        );
        let context = Context::inference();
        same_bits(name, &zoo::loss(&*narrow, &context).unwrap(), &zoo::loss(&*wide, &context).unwrap());
        // A pass with gradients reaches parameters of either type, in f32.
        let context = Context::differentiated();
        let gradients = [&narrow, &wide].map(|model| {
            let gradients = zoo::loss(&**model, &context).unwrap().backward().unwrap();
            let of = |(name, parameter): (String, &regard_nn::Parameter)| {
                Some((name, gradients.get(parameter.tensor())?))
            };
            model.parameters().into_iter().filter_map(of).collect::<Vec<_>>()
        });
        assert!(!gradients[0].is_empty() && gradients[0].len() == gradients[1].len(), "{name}");
        for ((parameter, got), (_, want)) in gradients[0].iter().zip(&gradients[1]) {
            same_bits(&format!("{name}: {parameter}"), got, want);
        }
    }
}

/// Fused projections and stacked experts are parts of larger tensors.
#[test]
fn parts_of_larger_tensors_stay_in_their_type() {
    let families = [
        "bloom",
        "falcon",
        "falcon-grouped",
        "gpt-bigcode",
        "gpt-neox",
        "gpt-oss",
        "gpt2",
        "phi3",
        "mixtral",
    ];
    for family in families {
        let golden = Golden::open(&format!("models/{family}"));
        let Both { narrow, wide, _folders } = both(|| Folder::of_golden(&golden));
        assert_eq!(type_of_matrices(&*narrow), [DataType::Bf16], "{family}");
        let inputs = Inputs::ids(&ids("text", 20, [2, 5]));
        let run = |model: &dyn Model| {
            let probe = Probe::new().track("layers.0.self.heads");
            let hidden = model.hidden(&Context::inference().with_probe(&probe), &inputs).unwrap();
            let heads = probe.get("layers.0.self.heads").unwrap().unwrap();
            let slope = hidden.multiply(&hidden).unwrap().sum_all().unwrap().backward().unwrap();
            (hidden.detach(), slope.get(&heads).unwrap())
        };
        let ((hidden, slope), (wide_hidden, wide_slope)) = (run(&*narrow), run(&*wide));
        same_bits(family, &hidden, &wide_hidden);
        same_bits(&format!("{family}: gradient of activations"), &slope, &wide_slope);
    }
}

#[test]
fn training_and_other_devices_widen_parameters() {
    let Both { mut narrow, wide, _folders } = both(|| Folder::of("llama"));
    narrow.widen().unwrap();
    assert_eq!(type_of_matrices(&*narrow), [DataType::F32]);
    for ((name, got), (_, want)) in narrow.parameters().iter().zip(wide.parameters()) {
        same_bits(name, got.tensor(), want.tensor());
    }
    let Both { mut narrow, _folders, .. } = both(|| Folder::of("llama"));
    narrow.to(regard_nn::tensor::Device::Apart).unwrap();
    assert_eq!(type_of_matrices(&*narrow), [DataType::F32]);
}

/// Written in the type of the file, bit for bit, whatever the family: parts of larger tensors, rows and vectors as well. A weight
/// that changed is written in f32.
#[test]
fn models_are_written_in_the_type_of_their_file() {
    let dtypes = |folder: &std::path::Path| {
        let bytes = std::fs::read(folder.join("model.safetensors")).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        file.tensors().into_iter().map(|(name, view)| (name, view.dtype())).collect::<Vec<_>>()
    };
    for family in ["llama", "gpt2", "bloom", "gpt-oss", "mixtral", "t5", "vit"] {
        let golden = Golden::open(&format!("models/{family}"));
        let Both { mut narrow, wide, _folders } = both(|| Folder::of_golden(&golden));
        let folder = tempfile::tempdir().unwrap();
        checkpoint::save(&*narrow, folder.path(), &serde_json::Map::new()).unwrap();
        assert!(dtypes(folder.path()).iter().all(|(_, dtype)| *dtype == Dtype::BF16), "{family}");
        let again = checkpoint::load(folder.path()).unwrap();
        assert_eq!(again.config["torch_dtype"], "bfloat16", "{family}");
        let [again, wide] = [&*again.model, &*wide].map(|model| checkpoint::to_parts(model).unwrap().tensors);
        for (name, tensor) in &wide {
            same_bits(name, &again[name].to_type(DataType::F32).unwrap(), tensor);
        }
        let mut changed = 0;
        narrow.visit_mut("", &mut |_, parameter| {
            if changed == 0 && parameter.tensor().shape().rank() > 1 {
                let mut values = parameter.tensor().to_vec();
                values[0] += 1e-6;
                *parameter.tensor_mut() = Tensor::new(&values, parameter.tensor().shape()).unwrap();
                changed = 1;
            }
        });
        checkpoint::save(&*narrow, folder.path(), &serde_json::Map::new()).unwrap();
        let wide = dtypes(folder.path()).iter().filter(|(_, dtype)| *dtype == Dtype::F32).count();
        assert_eq!(wide, 1, "{family}");
        assert_eq!(checkpoint::load(folder.path()).unwrap().config["torch_dtype"], "float32", "{family}");
    }
}
