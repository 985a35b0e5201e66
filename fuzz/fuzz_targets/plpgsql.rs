//! The reader of the PL/pgSQL original never panics, whatever the text. If it reads constants from a body, the body
//! generates exactly the ids with these constants. To check that, the body is run by an interpreter of the few
//! operations that lead to an id. A body with any other operation is not checked.
#![no_main]

use instagram_id_core::plpgsql::{self, Original};
use libfuzzer_sys::fuzz_target;
use std::collections::HashMap;

/// The clock in Unix milliseconds, and the result of nextval.
const MOMENTS: [(i64, i64); 2] = [(1_800_000_000_123, 1_000_000_007), (1_513_463_127_280, 1023)];

/// Bodies to edit token by token, and the tokens to insert.
const BODIES: [&str; 3] = [
    include_str!("../seeds/plpgsql/published"),
    include_str!("../seeds/plpgsql/expression"),
    include_str!("../seeds/plpgsql/by_hand"),
];
const OTHERS: &str =
    "( ) + - * % & | << :: := ; , bigint int floor mod 10 23 1000 1023 1024 5 t s r result shard_id
    seq_id now_millis our_epoch nextval 's' declare begin select into return end";

fuzz_target!(|data: &[u8]| {
    match data {
        // No text begins with such a byte.
        [body @ 0..32, edits @ ..] => check(&edited(BODIES[usize::from(*body) % BODIES.len()], edits)),
        _ => check(&String::from_utf8_lossy(data)),
    }
});

/// A body with some tokens removed, inserted, swapped or repeated many times.
fn edited(body: &str, edits: &[u8]) -> String {
    let mut tokens = tokens(&body.to_ascii_lowercase()).expect("a body");
    let others: Vec<&str> = OTHERS.split_whitespace().collect();
    for edit in edits.chunks_exact(2).take(8) {
        let (at, what) = (usize::from(edit[0]) % tokens.len(), edit[1]);
        let next = (at + 1) % tokens.len();
        match what {
            0..100 => drop(tokens.remove(at)),
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

fn check(body: &str) {
    let Ok(Original { epoch_ms: Some(epoch), shard: Some(shard @ 0..=8191), .. }) = plpgsql::read(body)
    else {
        return;
    };
    for (now, value) in MOMENTS {
        let made = Interpreter { now, value, ..Interpreter::default() }.run(body);
        let expected = (now.wrapping_sub(epoch) << 23) | (shard << 10) | (value % 1024);
        assert!(made.is_none_or(|id| id == expected), "{made:?}, not {expected}: {body}");
    }
}

#[derive(Clone, Copy)]
enum Value {
    Int(i64),
    Now,
    Seconds,
    /// The argument of nextval.
    Text,
}

#[derive(Default)]
struct Interpreter {
    now: i64,
    value: i64,
    tokens: Vec<String>,
    at: usize,
    variables: HashMap<String, Value>,
    /// Whether each declared variable has 64 bits.
    is_wide: HashMap<String, bool>,
}

impl Interpreter {
    /// The id that a body generates; None if the interpreter does not support the body.
    fn run(mut self, body: &str) -> Option<i64> {
        // Quotes, comments and escapes are not supported.
        if !body.is_ascii() || ["--", "/*", "\"", "$", "\\", ";;"].iter().any(|other| body.contains(other)) {
            return None;
        }
        self.tokens = tokens(&body.to_ascii_lowercase())?;
        self.eat("declare");
        while !self.eat("begin") {
            let name = self.word()?;
            let kind = self.word()?;
            let is_wide = match &kind[..] {
                "bigint" | "int8" => true,
                "int" | "integer" | "int4" => false,
                _ => return None,
            };
            self.is_wide.insert(name.clone(), is_wide);
            if self.eat(":=") {
                let value = self.expression(1)?;
                self.assign(&name, value)?;
            }
            self.expect(";")?;
        }
        let mut out = None;
        loop {
            let id = if self.eat("return") {
                Some(self.expression(1)?)
            } else if self.eat("end") {
                Some(out?)
            } else {
                None
            };
            if let Some(id) = id {
                return if let Value::Int(id) = id { Some(id) } else { None };
            }
            let (name, value) = if self.eat("select") {
                let value = self.expression(1)?;
                self.expect("into")?;
                (self.word()?, value)
            } else {
                let name = self.word()?;
                self.expect(":=")?;
                (name, self.expression(1)?)
            };
            self.expect(";")?;
            self.assign(&name, value)?;
            if !self.is_wide.contains_key(&name) {
                out = Some(value);
            }
        }
    }

    fn assign(&mut self, name: &str, value: Value) -> Option<()> {
        let Value::Int(n) = value else { return None };
        if self.is_wide.get(name) == Some(&false) {
            i32::try_from(n).ok()?;
        }
        self.variables.insert(name.to_owned(), value);
        Some(())
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.tokens.get(self.at).is_some_and(|next| next == token);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, token: &str) -> Option<()> {
        self.eat(token).then_some(())
    }

    fn word(&mut self) -> Option<String> {
        let token = self.tokens.get(self.at)?.clone();
        self.at += 1;
        token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_').then_some(token)
    }

    /// PostgreSQL's precedence: `<< | &` are equal and bind less tightly than `+ -`, which bind less tightly than `* /
    /// %`.
    fn expression(&mut self, tightness: u8) -> Option<Value> {
        let mut left = self.operand()?;
        while let Some(operator) = self.tokens.get(self.at).cloned() {
            let its = match &operator[..] {
                "*" | "%" => 3,
                "+" | "-" => 2,
                "<<" | "|" | "&" => 1,
                _ => break,
            };
            if its < tightness {
                break;
            }
            self.at += 1;
            let right = self.expression(its + 1)?;
            left = Value::Int(match (left, &operator[..], right) {
                (Value::Seconds, "*", Value::Int(1000)) | (Value::Int(1000), "*", Value::Seconds) => self.now,
                (Value::Int(a), operator, Value::Int(b)) => match operator {
                    "*" => a.checked_mul(b)?,
                    "%" => a.checked_rem(b)?,
                    "+" => a.checked_add(b)?,
                    "-" => a.wrapping_sub(b),
                    "<<" => (0..64).contains(&b).then(|| a << b)?,
                    "|" => a | b,
                    _ => a & b,
                },
                _ => return None,
            });
        }
        Some(left)
    }

    fn operand(&mut self) -> Option<Value> {
        let token = self.tokens.get(self.at)?.clone();
        self.at += 1;
        let value = match &token[..] {
            "(" => {
                let value = self.expression(1)?;
                self.expect(")")?;
                value
            }
            "-" => match self.operand()? {
                Value::Int(n) => Value::Int(n.checked_neg()?),
                _ => return None,
            },
            _ if token.starts_with('\'') => Value::Text,
            _ if token.starts_with(|c: char| c.is_ascii_digit()) => Value::Int(token.parse().ok()?),
            name if self.eat("(") => self.call(name)?,
            name => *self.variables.get(name)?,
        };
        if self.eat("::") {
            return match (&self.word()?[..], value) {
                ("bigint" | "int8", Value::Int(_)) => Some(value),
                _ => None,
            };
        }
        Some(value)
    }

    /// A function call, after its opening parenthesis.
    fn call(&mut self, name: &str) -> Option<Value> {
        if name == "extract" {
            self.expect("epoch")?;
            self.expect("from")?;
        }
        if ["clock_timestamp", "now"].contains(&name) {
            self.expect(")")?;
            return Some(Value::Now);
        }
        let argument = self.expression(1)?;
        let value = match (name, argument) {
            ("nextval", Value::Text) => Value::Int(self.value),
            ("extract", Value::Now) => Value::Seconds,
            ("floor", Value::Int(_)) => argument,
            ("mod", Value::Int(a)) => {
                self.expect(",")?;
                let Value::Int(b) = self.expression(1)? else { return None };
                Value::Int(a.checked_rem(b)?)
            }
            _ => return None,
        };
        self.expect(")")?;
        Some(value)
    }
}

fn tokens(text: &str) -> Option<Vec<String>> {
    let mut tokens = vec![];
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let len = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if first == '\'' {
            rest[1..].find('\'')? + 2
        } else {
            let pair = ["<<", "::", ":=", "%%"].iter().any(|pair| rest.starts_with(pair));
            1 + usize::from(pair)
        };
        let token = &rest[..len];
        tokens.push(if token == "%%" { "%" } else { token }.to_owned());
        rest = rest[len..].trim_start();
    }
    Some(tokens)
}
