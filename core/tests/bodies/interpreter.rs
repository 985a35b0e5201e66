//! Runs a body of the original by an interpreter of the few operations that lead to an id, and
//! compares the id with the constants that the reader has found. A body with any other operation is
//! not checked.

use instagram_id_core::plpgsql::{self, Original};
use std::collections::HashMap;

/// The clock in Unix microseconds, and the result of nextval. Rounded or cut off, it is the same
/// millisecond.
const MOMENTS: [(i64, i64); 2] =
    [(1_800_000_000_123_456, 1_000_000_007), (1_513_463_127_280_001, 1023)];

/// Bodies to edit token by token, and the tokens to insert.
pub const BODIES: [&str; 5] = [
    include_str!("../../../fuzz/seeds/plpgsql/arithmetic"),
    include_str!("../../../fuzz/seeds/plpgsql/sql"),
    include_str!("../../../fuzz/seeds/plpgsql/published"),
    include_str!("../../../fuzz/seeds/plpgsql/expression"),
    include_str!("../../../fuzz/seeds/plpgsql/by_hand"),
];
pub const OTHERS: &str =
    "( ) + - * % & | << :: := ; , bigint int floor mod 10 23 1000 1023 1024 8388608 5 t s r result shard_id
    seq_id now_millis our_epoch nextval 's' declare begin select into return end";

/// Checks that a body from which constants are read generates exactly the ids with these constants.
/// Returns whether it was read and run.
pub fn check(body: &str) -> bool {
    let is_run = check_with(body, plpgsql::read(body).ok(), Interpreter::run);
    check_with(body, plpgsql::read_sql(body).ok(), Interpreter::run_sql) || is_run
}

fn check_with(
    body: &str,
    read: Option<Original>,
    run: fn(Interpreter, &str) -> Option<i64>,
) -> bool {
    let Some(Original { epoch_ms: Some(epoch), shard: Some(shard @ 0..=8191), .. }) = read else {
        return false;
    };
    let mut is_run = false;
    for (now, value) in MOMENTS {
        let made = run(Interpreter { now, value, ..Interpreter::default() }, body);
        let expected = ((now / 1000).wrapping_sub(epoch) << 23) | (shard << 10) | (value % 1024);
        assert!(made.is_none_or(|id| id == expected), "{made:?}, not {expected}: {body}");
        is_run |= made.is_some();
    }
    is_run
}

#[derive(Clone, Copy)]
enum Value {
    Int(i64),
    /// A numeric, in thousandths.
    Numeric(i128),
    Now,
    Seconds,
    /// The argument of nextval.
    Text,
}

impl Value {
    /// As an assignment to a bigint or a cast rounds it.
    fn rounded(self) -> Option<i64> {
        match self {
            Value::Int(n) => Some(n),
            Value::Numeric(n) => i64::try_from((n + n.signum() * 500) / 1000).ok(),
            _ => None,
        }
    }

    fn thousandths(self) -> Option<i128> {
        match self {
            Value::Int(n) => Some(i128::from(n) * 1000),
            Value::Numeric(n) => Some(n),
            _ => None,
        }
    }
}

/// An operation on a numeric and another number.
fn exact(left: Value, operator: &str, right: Value) -> Option<Value> {
    let (a, b) = (left.thousandths()?, right.thousandths()?);
    let result = match operator {
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b).filter(|product| product % 1000 == 0).map(|product| product / 1000),
        "%" => a.checked_rem(b),
        // There are no bits in a numeric.
        _ => None,
    };
    result.map(Value::Numeric)
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
    /// Splits a body. Quotes, comments and escapes are not supported.
    fn load(&mut self, body: &str) -> Option<()> {
        if !body.is_ascii()
            || ["--", "/*", "\"", "$", "\\", ";;"].iter().any(|other| body.contains(other))
        {
            return None;
        }
        self.tokens = tokens(&body.to_ascii_lowercase())?;
        Some(())
    }

    /// The id that a SELECT returns; None if the interpreter does not support it.
    fn run_sql(mut self, body: &str) -> Option<i64> {
        self.load(body)?;
        self.expect("select")?;
        let id = self.expression(1)?;
        if self.eat("as") {
            self.word()?;
        }
        self.eat(";");
        if self.at == self.tokens.len() { id.rounded() } else { None }
    }

    /// The id that a body generates; None if the interpreter does not support the body.
    fn run(mut self, body: &str) -> Option<i64> {
        self.load(body)?;
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
                return id.rounded();
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
                out = Some(Value::Int(value.rounded()?));
            }
        }
    }

    fn assign(&mut self, name: &str, value: Value) -> Option<()> {
        let n = value.rounded()?;
        if self.is_wide.get(name) == Some(&false) {
            i32::try_from(n).ok()?;
        }
        self.variables.insert(name.to_owned(), Value::Int(n));
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

    /// PostgreSQL's precedence: `<< | &` are equal and bind less tightly than `+ -`, which bind
    /// less tightly than `* / %`.
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
            left = match (left, &operator[..], right) {
                (Value::Seconds, "*", Value::Int(1000))
                | (Value::Int(1000), "*", Value::Seconds) => Value::Numeric(i128::from(self.now)),
                (Value::Int(a), operator, Value::Int(b)) => Value::Int(match operator {
                    "*" => a.checked_mul(b)?,
                    "%" => a.checked_rem(b)?,
                    "+" => a.checked_add(b)?,
                    "-" => a.wrapping_sub(b),
                    "<<" => (0..64).contains(&b).then(|| a << b)?,
                    "|" => a | b,
                    _ => a & b,
                }),
                (left, operator, right) => exact(left, operator, right)?,
            };
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
                ("bigint" | "int8", Value::Int(_) | Value::Numeric(_)) => {
                    value.rounded().map(Value::Int)
                }
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
            ("floor", Value::Int(n)) => Value::Numeric(i128::from(n) * 1000),
            ("floor", Value::Numeric(n)) => Value::Numeric(n.div_euclid(1000) * 1000),
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

/// The tokens of a body in lower case.
pub fn tokens(text: &str) -> Option<Vec<String>> {
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
