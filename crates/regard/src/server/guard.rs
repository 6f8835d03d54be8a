//! Only this machine's own page may send requests.
//!
//! Any web site that someone visits can make their browser send requests to loopback. A foreign `Origin` gives it away; a
//! site whose name was made to point here (DNS rebinding) is given away by `Host`. Answers carry no permission for others
//! to read them, and the page may load nothing from elsewhere.

use super::problem::Problem;
use super::{App, Limits};
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::time::timeout;

/// What the page may load: its own files, pictures that it makes itself, and nothing from elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; \
     connect-src 'self'; font-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Accepts or rejects a request, and sets the headers of every response.
pub async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut response = match reject(request.headers(), app.address) {
        Some(problem) => problem.into_response(),
        None => match whole(request, &app.limits).await {
            Ok(request) => next.run(request).await,
            Err(problem) => problem.into_response(),
        },
    };
    let headers = response.headers_mut();
    let mark = |name, value: &'static str| (name, HeaderValue::from_static(value));
    for (name, value) in [
        mark(header::CONTENT_SECURITY_POLICY, POLICY),
        mark(header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        mark(header::REFERRER_POLICY, "no-referrer"),
        mark(header::CACHE_CONTROL, "no-store"),
        mark(header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, value);
    }
    response
}

/// A request with all of its body, which must arrive in time.
async fn whole(request: Request, limits: &Limits) -> Result<Request, Problem> {
    let (head, body) = request.into_parts();
    let most = limits.picture_bytes.max(limits.text_bytes);
    match timeout(limits.body_time, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => Ok(Request::from_parts(head, Body::from(bytes))),
        Ok(Err(_)) => Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the request is too long: at most {most} bytes are read"),
        )),
        Err(_) => {
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "the rest of the request did not arrive in time"))
        }
    }
}

/// Why a request is rejected, if it is.
fn reject(headers: &HeaderMap, address: SocketAddr) -> Option<Problem> {
    let forbidden = |what: &str| Some(Problem::new(StatusCode::FORBIDDEN, what));
    let text = |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    match text(header::HOST) {
        Some(host) if is_ours(host, address) => {}
        _ => return forbidden("this server answers at its own address only"),
    }
    match text(header::ORIGIN).map(|origin| origin.strip_prefix("http://")) {
        None => {}
        Some(Some(host)) if is_ours(host, address) => {}
        Some(_) => return forbidden("this server answers to its own page only"),
    }
    None
}

/// Whether a host with its port is this server's: a name of loopback, or the address that it listens at.
fn is_ours(host: &str, address: SocketAddr) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port.parse::<u16>().ok()),
        _ => (host, Some(80)),
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let known = match bare.parse::<IpAddr>() {
        // Numbers cannot be made to point elsewhere; a server beyond loopback is meant to be reached by them.
        Ok(ip) => ip.is_loopback() || !address.ip().is_loopback(),
        Err(_) => bare.eq_ignore_ascii_case("localhost"),
    };
    known && port == Some(address.port())
}

#[cfg(test)]
mod tests {
    use super::is_ours;

    #[test]
    fn only_names_of_loopback_with_the_port_are_ours() {
        let here = "127.0.0.1:8420".parse().unwrap();
        for host in ["127.0.0.1:8420", "localhost:8420", "LOCALHOST:8420", "[::1]:8420"] {
            assert!(is_ours(host, here), "{host}");
        }
        for host in [
            "localhost",
            "localhost:80",
            "evil.example:8420",
            "localhost.evil.example:8420",
            "192.168.0.4:8420",
            "",
            ":8420",
            "127.0.0.1:8420@evil.example:8420",
            "[::1",
            "localhost:x",
        ] {
            assert!(!is_ours(host, here), "{host}");
        }
        assert!(is_ours("192.168.0.4:9", "0.0.0.0:9".parse().unwrap()), "meant to be reached from elsewhere");
        assert!(!is_ours("evil.example:9", "0.0.0.0:9".parse().unwrap()));
    }
}
