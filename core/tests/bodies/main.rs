//! Bodies that differ from an original in a few tokens: if the reader accepts one, it generates the
//! ids that the reader expects. The fuzz target does the same with bodies at random.

mod interpreter;

use interpreter::{BODIES, OTHERS, check, tokens};

/// Every body with up to two tokens removed at two places, one token inserted, replaced or swapped
/// with its neighbor, or up to eight repeated.
#[test]
fn every_small_edit_is_read_correctly_or_refused() {
    let mut read = 0;
    let mut try_out = |tokens: Vec<&str>| read += usize::from(check(&tokens.join(" ")));
    for body in BODIES {
        assert!(check(body), "{body}");
        let body = tokens(&body.to_ascii_lowercase()).unwrap();
        let body: Vec<&str> = body.iter().map(String::as_str).collect();
        for first in 0..body.len() {
            for count in 0..=2 {
                let mut once = body.clone();
                once.drain(first..(first + count).min(body.len()));
                for second in first..once.len() {
                    for count in 1..=2 {
                        let mut twice = once.clone();
                        twice.drain(second..(second + count).min(once.len()));
                        try_out(twice);
                    }
                }
            }
            for other in OTHERS.split_whitespace() {
                let mut inserted = body.clone();
                inserted.insert(first, other);
                try_out(inserted);
                let mut replaced = body.clone();
                replaced[first] = other;
                try_out(replaced);
            }
            for len in 1..=8.min(body.len() - first) {
                let mut repeated = body.clone();
                repeated.splice(first..first, body[first..first + len].iter().copied());
                try_out(repeated);
            }
            let mut swapped = body.clone();
            swapped.swap(first, (first + 1) % body.len());
            try_out(swapped);
        }
    }
    println!("{read} of them were read");
    assert!(read > 500, "{read}");
}
