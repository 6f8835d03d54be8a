//! Generation of several tokens, sent one by one as they are sampled: a line of JSON each.

use super::App;
use super::job_queue::JobKind;
use super::problem::Problem;
use super::routes::find_pass;
use crate::error::UsageError;
use crate::forward_pass::ForwardPass;
use crate::forward_pass::prediction::draw;
use anyhow::{Result, ensure};
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use regard_nn::Context;
use regard_nn::attention::Cache;
use regard_nn::generate::{Answer, Continue, NextToken, Sampling};
use regard_nn::tensor::Ids;
use regard_nn::tokens::Special;
use serde::Deserialize;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The most tokens of one request.
const MOST_TOKENS: usize = 256;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenerateRequest {
    count: usize,
    #[serde(default)]
    sampling: Sampling,
    /// The number of the first draw.
    #[serde(default)]
    step: u64,
}

/// Lines of an answer that is still being computed.
struct Lines(Receiver<Bytes>);

impl hyper::body::Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}

/// Samples several tokens.
pub async fn generate(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    request: Result<Json<GenerateRequest>, JsonRejection>,
) -> Result<Response, Problem> {
    let GenerateRequest { count, sampling, step } = request?.0;
    if count == 0 || count > MOST_TOKENS {
        return Err(
            anyhow::Error::new(UsageError(format!("from 1 to {MOST_TOKENS} tokens are generated"))).into()
        );
    }
    sampling.check().map_err(anyhow::Error::new)?;
    let (_, pass) = find_pass(&app, &id)?;
    let (lines, answer) = channel(8);
    tokio::spawn(async move {
        let (last, most) = (lines.clone(), app.limits.tokens);
        let sampled =
            move |cancel: &AtomicBool| sample(&pass, (count, step), &sampling, most, cancel, &lines);
        let job = app.jobs.run(JobKind::ForwardPass, sampled);
        // Nobody may wait for it any more.
        let done = tokio::select! { done = job => done, () = last.closed() => return };
        if let Err(problem) = done {
            let _ = last.send(line(&json!({ "error": problem.message() }))).await;
        }
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::new(Lines(answer))).into_response())
}

fn line(value: &Value) -> Bytes {
    format!("{value}\n").into()
}

/// Samples tokens, with keys and values of earlier ones kept. With changes inside the model, each is a pass of its own: the
/// changes may be about all positions.
fn sample(
    pass: &ForwardPass,
    (count, first): (usize, u64),
    sampling: &Sampling,
    most: usize,
    cancel: &AtomicBool,
    lines: &Sender<Bytes>,
) -> Result<()> {
    let stops = pass.opened().token_ids("eos_token_id");
    let mut ids: Vec<u32> = pass.predicting().iter().map(|token| token.id).collect();
    let limit = pass.model().abilities().context.map_or(most, |limit| limit.min(most));
    ensure!(ids.len() < limit, UsageError(format!("the text is as long as it can be: {limit} tokens")));
    let room = count.min(limit - ids.len());
    let mut text = pass.opened().tokenizer.as_ref().map(|tokenizer| tokenizer.decoder(Special::Drop));
    // A few tokens before are enough to decode the next as in the whole text.
    for &id in &ids[ids.len().saturating_sub(16)..] {
        text.as_mut().map(|decoder| decoder.push(id)).transpose()?;
    }
    let mut send = |token: u32| -> Result<bool> {
        let piece = text.as_mut().map(|decoder| decoder.push(token)).transpose()?.flatten();
        Ok(lines.blocking_send(line(&json!({ "id": token, "text": piece.unwrap_or_default() }))).is_ok())
    };
    if !pass.changes().is_empty() {
        let mut before: Option<ForwardPass> = None;
        for step in 0..room as u64 {
            let token = draw(before.as_ref().unwrap_or(pass), sampling, first + step)?;
            if !send(token)? || stops.contains(&token) {
                return Ok(());
            }
            before = Some(before.as_ref().unwrap_or(pass).extended(token, most, cancel)?);
        }
        return Ok(());
    }
    let cache = Cache::new();
    let plain = Context::inference().with_cancel(cancel);
    let model: Box<dyn NextToken + '_> = match &pass.inputs().answer {
        None => Box::new(Continue::new(pass.model())?),
        Some(_) => {
            let inputs = pass.inputs();
            let source = inputs.require_ids("generation")?;
            Box::new(Answer::new(pass.model(), &plain, source, inputs.present.as_ref(), 1)?)
        }
    };
    let context = plain.clone().with_cache(&cache);
    let mut token = draw(pass, sampling, first)?;
    let mut read = 0;
    for step in 1..=room as u64 {
        ids.push(token);
        if !send(token)? || stops.contains(&token) || step == room as u64 || cancel.load(Ordering::Relaxed) {
            return Ok(());
        }
        let fresh = &ids[read..];
        let scores = model.next_scores(&context, &Ids::new(fresh, [1, fresh.len()])?, None)?;
        read = ids.len();
        token = sampling.choose(&scores.values(), &ids, (0, first + step));
    }
    Ok(())
}
