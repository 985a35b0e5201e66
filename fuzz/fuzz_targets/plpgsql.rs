//! The reader of the PL/pgSQL original and of its like in SQL never panics, whatever the text. If
//! it reads constants from a body, the body generates exactly the ids with these constants; see
//! `interpreter`.
#![no_main]

#[path = "../../core/tests/bodies/interpreter.rs"]
mod interpreter;

use interpreter::{BODIES, OTHERS, check, tokens};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    match data {
        // No text begins with such a byte.
        [body @ 0..32, edits @ ..] => {
            check(&edited(BODIES[usize::from(*body) % BODIES.len()], edits))
        }
        _ => check(&String::from_utf8_lossy(data)),
    };
});

/// A body with some tokens removed, inserted, swapped or repeated many times.
fn edited(body: &str, edits: &[u8]) -> String {
    let mut tokens = tokens(&body.to_ascii_lowercase()).expect("a body");
    let others: Vec<&str> = OTHERS.split_whitespace().collect();
    for edit in edits.chunks_exact(2).take(8) {
        let (at, what) = (usize::from(edit[0]) % tokens.len(), edit[1]);
        let next = (at + 1) % tokens.len();
        match what {
            0..80 => drop(tokens.remove(at)),
            // Such as a cast.
            80..100 => drop(tokens.drain(at..(at + 2).min(tokens.len()))),
            100..120 => tokens.swap(at, next),
            // Only once, or the fuzzer itself would run out of memory.
            120 if tokens[at].len() < 20 => tokens[at] = format!("{} ", tokens[at]).repeat(20_000),
            _ => tokens.insert(at, others[usize::from(what) % others.len()].to_owned()),
        }
        if tokens.is_empty() {
            break;
        }
    }
    tokens.join(" ")
}
