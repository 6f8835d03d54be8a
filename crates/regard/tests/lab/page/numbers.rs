//! What the server sends is what the library computes.

use super::requests::{get, post, serve};
use crate::checkpoints::made;
use regard::forward_pass::{AttentionMap, ForwardPass, Input, MapKey, MapScale, TokenDisplay};
use regard::server::Limits;
use regard_nn::Context;
use regard_nn::models::Inputs;
use regard_nn::tensor::Ids;
use regard_nn::tokens::{Special, Tokenizer};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

const TEXT: &str = "The cat sat on the mat by the dög.";

fn pass(folder: &Path, input: &Input) -> ForwardPass {
    let opened = Arc::new(regard::model::open(made::text(folder)).unwrap());
    ForwardPass::new(&opened, input, 100, &AtomicBool::new(false)).unwrap()
}

fn read(address: SocketAddr, folder: &Path, text: &str, second: &str) -> Value {
    let body = json!({ "model": made::text(folder), "text": text, "second": second }).to_string();
    let answer = post(address, "/api/read", &body);
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

#[test]
fn tiles_blocks_and_thumbnails_are_of_the_librarys_weights() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model");
    made::gpt(&path, 5);
    let address = serve(folder.path(), &["model"], Limits::default());
    let told = read(address, &path, TEXT, "");
    let id = told["id"].as_str().unwrap();
    let pass = pass(&path, &Input::Text(TEXT.to_owned(), String::new()));
    let count = pass.source().len();
    assert_eq!(told["source"].as_array().unwrap().len(), count);
    let weights = pass.weights(1).unwrap().head(0, 1).unwrap().to_vec();
    let site = "site=layers.1.self&head=1";
    let block =
        get(address, &format!("/api/readings/{id}/block?{site}&top=0&bottom={count}&left=0&right={count}"));
    assert_eq!(block.reals(), weights);
    // Level 255 is the largest weight of those who have a choice (the first sees only itself), save one in a hundred.
    let tile = get(address, &format!("/api/readings/{id}/tile?{site}&zoom=0&x=0&y=0"));
    let (about, levels) = tile.unpacked();
    let mut seen: Vec<f32> = weights[count..].iter().copied().filter(|&weight| weight > 0.0).collect();
    seen.sort_by(|a, b| b.total_cmp(a));
    let top = seen[seen.len() / 100];
    assert!(count <= 64 && top < seen[0]);
    assert_eq!(about["top"].as_f64().unwrap() as f32, top);
    assert_eq!(about["largest"].as_f64().unwrap() as f32, seen[0]);
    let expected: Vec<u8> =
        weights.iter().map(|weight| (weight / top * 255.0).round().min(255.0) as u8).collect();
    assert_eq!(levels, expected);
    // A pixel of a zoomed tile is the largest of four.
    let zoomed = get(address, &format!("/api/readings/{id}/tile?{site}&zoom=1&x=0&y=0"));
    let (about, levels) = zoomed.unpacked();
    assert_eq!(about["width"], count.div_ceil(2));
    let corner = [expected[0], expected[1], expected[count], expected[count + 1]].into_iter().max().unwrap();
    assert_eq!(levels[0], corner);
    let small = get(address, &format!("/api/readings/{id}/thumbnails?site=layers.1.self&side=64"));
    let (about, levels) = small.unpacked();
    assert_eq!(about["tops"].as_array().unwrap().len(), 2);
    assert_eq!(&levels[count * count..], expected);
}

#[test]
fn words_are_sums_over_keys_and_means_over_queries() {
    let folder = TempDir::new().unwrap();
    made::gpt(folder.path(), 5);
    let pass = pass(folder.path(), &Input::Text(TEXT.to_owned(), String::new()));
    let going = AtomicBool::new(false);
    let grid =
        |shown, scale| AttentionMap::new(&pass, MapKey { site: 0, head: 0, scale, shown }, &going).unwrap();
    let (plain, merged) = (TokenDisplay::default(), TokenDisplay { merge: true, hide: false });
    let words = grid(merged, MapScale::Raw);
    let (rows, columns) = words.size();
    let pieces = pass.source().len();
    assert!(rows < pieces, "some words have several pieces");
    let (axis, _) = pass.axes(pass.sites()[0].group, merged);
    let all = grid(plain, MapScale::Raw).block(0..pieces, 0..pieces).unwrap();
    let values = words.block(0..rows, 0..columns).unwrap();
    for (r, place) in axis.places().iter().enumerate() {
        for (c, column) in axis.places().iter().enumerate() {
            let sum: f32 = place
                .clone()
                .flat_map(|q| column.clone().map(move |k| (q, k)))
                .map(|(q, k)| all[q * pieces + k])
                .sum();
            let expected = sum / place.len() as f32;
            assert!((values[r * columns + c] - expected).abs() < 1e-6);
        }
    }
    // Rows without the first token sum to 1 again, wherever something is left.
    for scale in [MapScale::Rest, MapScale::Norms] {
        let rows = grid(plain, scale).block(0..pieces, 0..pieces).unwrap();
        for row in rows.chunks(pieces).skip(1) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{scale:?}");
        }
    }
    assert_eq!(grid(plain, MapScale::Rest).block(3..4, 0..1).unwrap(), [0.0]);
}

#[test]
fn the_vectors_explain_the_weights() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model");
    made::t5(&path);
    let address = serve(folder.path(), &["model"], Limits::default());
    let told = read(address, &path, "The cat sat", "the dog");
    assert_eq!(told["groups"], json!(["encoder", "decoder", "cross"]));
    let id = told["id"].as_str().unwrap();
    for site in told["sites"].as_array().unwrap() {
        let name = site["name"].as_str().unwrap();
        let answer = get(address, &format!("/api/readings/{id}/vectors?site={name}&head=1&query=1&keys=0,1"));
        assert_eq!(answer.status, 200, "{name}");
        let (about, _) = answer.unpacked();
        let values = answer.reals();
        let mut start = 0;
        let mut part = std::collections::BTreeMap::new();
        for one in about["parts"].as_array().unwrap() {
            let count = one["count"].as_u64().unwrap() as usize;
            part.insert(one["name"].as_str().unwrap().to_owned(), values[start..start + count].to_vec());
            start += count;
        }
        // A softmax of the scores that may be seen.
        let seen = if site["causal"] == true { 2 } else { part["scores"].len() };
        let total: f32 = part["scores"][..seen].iter().map(|score| score.exp()).sum();
        for (key, weight) in part["weights"].iter().enumerate() {
            let expected = if key < seen { part["scores"][key].exp() / total } else { 0.0 };
            assert!((weight - expected).abs() < 1e-5, "{name}: {weight} and {expected}");
        }
        // Without a bias, the scores are scaled dot products.
        if site["biased"] == false {
            let dot: f32 = part["query"].iter().zip(&part["key"]).map(|(q, k)| q * k).sum();
            let scale = site["scale"].as_f64().unwrap() as f32;
            assert!((dot * scale - part["scores"][0]).abs() < 1e-4, "{name}");
        }
    }
}

#[test]
fn measures_flow_and_next_tokens_are_served() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model");
    made::gpt(&path, 5);
    let address = serve(folder.path(), &["model"], Limits::default());
    let told = read(address, &path, TEXT, "");
    let id = told["id"].as_str().unwrap();
    let measures = get(address, &format!("/api/readings/{id}/measures?site=layers.0.self")).json();
    assert_eq!(measures["heads"].as_array().unwrap().len(), 2);
    assert!(measures["names"].as_array().unwrap().contains(&json!("previous")));
    let count = told["source"].as_array().unwrap().len();
    let flow = get(address, &format!("/api/readings/{id}/flow?group=self&position=3"));
    let rows = flow.reals();
    assert_eq!(rows.len(), 2 * 2 * count, "two layers, raw and rolled out");
    for row in rows.chunks(count) {
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-4);
        assert!(row[4..].iter().all(|&weight| weight == 0.0), "nothing comes from later");
    }
    let next = get(address, &format!("/api/readings/{id}/next"));
    let (about, _) = next.unpacked();
    let scores = next.reals();
    let best = about["best"][0]["id"].as_u64().unwrap() as usize;
    assert!(scores.iter().all(|&score| score <= scores[best]));
    let further =
        post(address, &format!("/api/readings/{id}/step"), &json!({ "token": best }).to_string()).json();
    assert_eq!(further["source"].as_array().unwrap().len(), count + 1);
    assert_eq!(further["source"][count]["id"], best);
}

#[test]
fn a_picture_is_read_from_what_a_page_sends() {
    use base64::Engine as _;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model");
    made::vit(&path);
    let address = serve(folder.path(), &["model"], Limits::default());
    let mut png = Vec::new();
    let mut encoder = png::Encoder::new(&mut png, 12, 8);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(&[77; 12 * 8 * 3]).unwrap();
    let picture = base64::engine::general_purpose::STANDARD.encode(&png);
    let body = json!({ "model": made::text(&path), "picture": picture }).to_string();
    let told = post(address, "/api/read", &body).json();
    assert_eq!(told["patches"], json!([2, 3]));
    assert_eq!(told["source"].as_array().unwrap().len(), 7);
    let id = told["id"].as_str().unwrap();
    let classes = get(address, &format!("/api/readings/{id}/classes")).json();
    assert_eq!(classes["probabilities"].as_array().unwrap().len(), 3);
    let spoilt = json!({ "model": made::text(&path), "picture": "AAAA" }).to_string();
    let refused = post(address, "/api/read", &spoilt);
    assert!(refused.status == 400 && refused.problem().contains("not a PNG"));
}

#[test]
fn of_all_scores_the_last_are_computed_and_kept() {
    let folder = TempDir::new().unwrap();
    made::gpt(folder.path(), 5);
    let pass = pass(folder.path(), &Input::Text(TEXT.to_owned(), String::new()));
    let ids: Vec<u32> = pass.source().iter().map(|token| token.id).collect();
    let inputs = Inputs::ids(&Ids::new(&ids, [1, ids.len()]).unwrap());
    let all = pass.model().forward(&Context::inference(), &inputs).unwrap();
    let scores = pass.scores().unwrap().to_vec();
    let last = &all.to_vec()[(ids.len() - 1) * scores.len()..];
    for (kept, computed) in scores.iter().zip(last) {
        assert!((kept - computed).abs() < 1e-4);
    }
    // What is computed on demand counts too.
    let before = pass.bytes();
    pass.vectors(0, &AtomicBool::new(false)).unwrap();
    assert!(pass.bytes() > before);
}

#[test]
fn drawn_tokens_are_read_again_and_spelt_as_the_tokenizer_spells_them() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model");
    made::gpt(&path, 5);
    let address = serve(folder.path(), &["model"], Limits::default());
    let told = read(address, &path, TEXT, "");
    assert_eq!(told["said"], json!({ "given": TEXT, "drawn": [] }));
    let mut last = told.clone();
    for token in [40, 41] {
        let id = last["id"].as_str().unwrap();
        let step = json!({ "token": token }).to_string();
        last = post(address, &format!("/api/readings/{id}/step"), &step).json();
    }
    let body = json!({ "model": made::text(&path), "text": TEXT, "drawn": [40, 41] }).to_string();
    let again = post(address, "/api/read", &body).json();
    for part in ["source", "said"] {
        assert_eq!(again[part], last[part]);
    }
    let tokenizer = Tokenizer::from_folder(&path).unwrap();
    let ids: Vec<u32> = again["source"]
        .as_array()
        .unwrap()
        .iter()
        .map(|token| token["id"].as_u64().unwrap() as u32)
        .collect();
    let said = &again["said"];
    let whole = format!(
        "{}{}{}",
        said["given"].as_str().unwrap(),
        said["drawn"][0].as_str().unwrap(),
        said["drawn"][1].as_str().unwrap()
    );
    assert_eq!(whole, tokenizer.decode(&ids, Special::Drop).unwrap());
    let unknown = json!({ "model": made::text(&path), "text": TEXT, "drawn": [999_999] }).to_string();
    assert_eq!(post(address, "/api/read", &unknown).status, 400);
}
