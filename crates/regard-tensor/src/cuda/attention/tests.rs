//! The kernels compile, where NVRTC is installed.

use super::*;
use crate::cuda::{library, program};

/// Needs NVRTC but no device.
#[test]
fn the_kernels_compile_where_nvrtc_is_installed() {
    if library::nvrtc().is_err() {
        return;
    }
    let place = Place { array: Array::zeros(1), strides: Strides { start: 0, batch: 0, head: 0, row: 0 } };
    let mut spec = Spec {
        batch: 1,
        heads: 1,
        kv_heads: 1,
        queries: 1,
        keys: 1,
        width: 16,
        value_width: 16,
        scale: 1.0,
        soft_cap: None,
        causal: true,
        query: place.clone(),
        key: place.clone(),
        value: place,
        key_mask: None,
        blocks: None,
        bias: BiasSpec::None,
        sink: None,
        dropout: None,
    };
    let compiles = |source: &'static Source, spec: &Spec, data_type, architecture| {
        let defines = defines(spec, data_type, false);
        program::machine_code(Variant { source, defines: &defines }, architecture).expect("it compiles");
    };
    let engines = [
        (&FFMA, DataType::F32, "sm_80"),
        (&MMA, DataType::Bf16, "sm_80"),
        (&WGMMA, DataType::Bf16, "sm_90a"),
        (&WGMMA_ONE_PASS, DataType::Bf16, "sm_90a"),
    ];
    for (engine, data_type, architecture) in engines {
        let backward = match &engine.backward {
            Backward::Apart { query, key_value } => vec![query, key_value],
            Backward::Together(gradients) => vec![gradients],
        };
        for source in [&engine.forward, &DELTA, &WEIGHTS].into_iter().chain(backward) {
            compiles(source, &spec, data_type, architecture);
        }
    }
    spec.bias = BiasSpec::Distance(Array::zeros(1));
    compiles(&BIAS_GRADIENT, &spec, DataType::F32, "sm_80");
}
