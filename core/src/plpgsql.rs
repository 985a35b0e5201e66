//! Reads the constants from the body of the PL/pgSQL function that Instagram published, or of an
//! SQL function like it.
//!
//! The body is evaluated, not searched. Its statements run in order over a few abstract values,
//! such as "the clock in milliseconds" or "nextval, unreduced". [`binary`] lists the only
//! operations that lead to an id; the result of any other operation cannot become a part of one. So
//! the constants that are read are certain to be those in the ids. Branches, loops and dynamic SQL
//! are refused. PostgreSQL's operator precedence matters for this: `t << 23 | s << 10` means `((t
//! << 23) | s) << 10`, which is another id.
//!
//! Only the body is read, not the function's language, arguments or result type. The text is parsed
//! as PostgreSQL parses it with standard_conforming_strings on.

use std::collections::HashMap;
use std::fmt;

/// The constants read from a body; `None` for one that the body does not plainly contain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Original {
    pub epoch_ms: Option<i64>,
    /// As written. It need not be in 0 to 8191.
    pub shard: Option<i64>,
    /// The text given to nextval, to be resolved as a regclass.
    pub sequence: Option<String>,
}

/// Why a body is not the original.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Difference {
    NotABlock,
    NotASelect,
    Statement(String),
    NoResult,
    NotMilliseconds,
    NoEpoch,
    NotTheTime,
    TimeShift(i64),
    NotWhole,
    NoTime,
    ShardShift(i64),
    ShardProduct,
    NoShard,
    NoNextval,
    SequenceModulo(i64),
    SequenceNotReduced,
    Unrecognised,
}

impl Difference {
    /// The statement that begins with this word, which can be as long as the body.
    fn statement(word: &str) -> Difference {
        Difference::Statement(word.to_uppercase().chars().take(63).collect())
    }
}

impl fmt::Display for Difference {
    /// A phrase that follows the name of the function.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::NotABlock => f.write_str("is not a plain block of BEGIN and END"),
            Self::NotASelect => {
                f.write_str("is not a single SELECT of one value without FROM or other clauses")
            }
            Self::Statement(what) => write!(f, "has a statement that the original lacks: {what}"),
            Self::NoResult => f.write_str("returns no value"),
            Self::NotMilliseconds => f.write_str("does not multiply the clock's seconds, with their fraction, by 1000"),
            Self::NoEpoch => f.write_str("subtracts no epoch from the time"),
            Self::NotTheTime => {
                f.write_str("shifts by 23 bits a value that is not plainly the milliseconds since an epoch")
            }
            Self::TimeShift(bits) => write!(f, "shifts the time by {bits} bits, not 23"),
            Self::NotWhole => f.write_str(
                "multiplies by 8388608 a time that is not plainly a whole number; cast it to bigint before",
            ),
            Self::NoTime => f.write_str("has no time shifted by 23 bits"),
            Self::ShardShift(bits) => write!(f, "shifts the shard by {bits} bits, not 10"),
            Self::ShardProduct => {
                f.write_str("multiplies by 1024 a shard that is not plainly a constant; shift it with << 10")
            }
            Self::NoShard => f.write_str("has no shard shifted by 10 bits"),
            Self::NoNextval => f.write_str("calls no nextval()"),
            Self::SequenceModulo(modulus) => write!(f, "takes the sequence modulo {modulus}, not 1024"),
            Self::SequenceNotReduced => f.write_str("does not plainly take the sequence modulo 1024"),
            Self::Unrecognised => {
                f.write_str("does not plainly join one time, one shard and one sequence with | or +")
            }
        }
    }
}

/// Reads a function's body, `pg_proc.prosrc`.
pub fn read(body: &str) -> Result<Original, Difference> {
    let tokens = tokens(body);
    if !tokens.iter().any(|token| token.is("nextval")) {
        return Err(Difference::NoNextval);
    }
    let mut block = Block::default();
    let mut begun = false;
    let mut statements = tokens.split(|token| token.is(";"));
    while let Some(mut statement) = statements.next() {
        while let [first, rest @ ..] = statement
            && !begun
            && (first.is("declare") || first.is("begin"))
        {
            begun = first.is("begin");
            statement = rest;
        }
        let [first, rest @ ..] = statement else { continue };
        match (first, rest) {
            (Token::Word(name), _) if !begun => block.declare(name, rest)?,
            (Token::Word(name), [assign, value @ ..])
                if (assign.is(":=") || assign.is("=")) && !RESERVED.contains(&name.as_str()) =>
            {
                let value = block.value(value)?;
                block.assign(name, value);
            }
            _ if !begun => break,
            _ if first.is("select") => block.select_into(rest)?,
            _ if first.is("return") && !rest.is_empty() => {
                let id = block.value(rest)?;
                end(statements)?;
                return block.finish(id);
            }
            _ if first.is("return") || first.is("end") => {
                if first.is("return") {
                    end(statements)?;
                }
                let id = block.out.take().and_then(|name| block.values.remove(&name));
                return block.finish(id.ok_or(Difference::NoResult)?);
            }
            // They compute no value.
            _ if first.is("null") || first.is("raise") => {}
            (Token::Word(word), _) => return Err(Difference::statement(word)),
            _ => break,
        }
    }
    Err(Difference::NotABlock)
}

/// Checks that only END follows a RETURN: a handler after EXCEPTION could return another id.
fn end<'a>(mut statements: impl Iterator<Item = &'a [Token]>) -> Result<(), Difference> {
    match statements.find_map(<[Token]>::first) {
        Some(first) if first.is("end") => Ok(()),
        Some(Token::Word(word)) => Err(Difference::statement(word)),
        _ => Err(Difference::NotABlock),
    }
}

/// Words that begin a statement. They are no variables, unless they are quoted.
const RESERVED: [&str; 7] = ["begin", "declare", "end", "null", "raise", "return", "select"];

/// Reads the body of a function in the language SQL: a SELECT of the id.
pub fn read_sql(body: &str) -> Result<Original, Difference> {
    let tokens = tokens(body);
    if !tokens.iter().any(|token| token.is("nextval")) {
        return Err(Difference::NoNextval);
    }
    let mut statements =
        tokens.split(|token| token.is(";")).filter(|statement| !statement.is_empty());
    let (Some([select, id @ ..]), None) = (statements.next(), statements.next()) else {
        return Err(Difference::NotASelect);
    };
    let id = match id {
        [id @ .., r#as, Token::Word(_)] if r#as.is("as") => id,
        id => id,
    };
    if !select.is("select") {
        return Err(Difference::NotASelect);
    }
    let mut block = Block::default();
    let mut expression = Expression::new(id, &mut block);
    let id = expression.operation(1)?;
    match (expression.lost, expression.tokens) {
        (true, _) => Err(Difference::Unrecognised),
        (false, []) => block.finish(id),
        (false, _) => Err(Difference::NotASelect),
    }
}

/// Whether a body may name a sequence: it has the name after that of its schema, also in a comment
/// or a string, or alone as a string, which can be that of another sequence. Case and double quotes
/// do not count.
pub fn mentions(body: &str, schema: &str, name: &str) -> bool {
    let plain = |text: &str| text.replace('"', "").to_lowercase();
    let [body, schema, name] = [body, schema, name].map(plain);
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let is_quoted =
        |before: &str, after: &str| before.ends_with(['\'', '$']) && after.starts_with(['\'', '$']);
    // The name can have only quotes.
    !name.is_empty()
        && body.match_indices(&name).any(|(at, _)| {
            let (before, after) = (&body[..at], &body[at + name.len()..]);
            if before.ends_with(is_part) || after.starts_with(is_part) {
                return false;
            }
            match before.trim_end().strip_suffix('.').map(str::trim_end) {
                Some(before) => {
                    before.strip_suffix(&schema).is_some_and(|it| !it.ends_with(is_part))
                }
                // PostgreSQL skips blanks around a name. A name can have only blanks.
                None if name.trim().is_empty() => is_quoted(before, after),
                None => is_quoted(before.trim_end(), after.trim_start()),
            }
        })
}

/// The parts of a name such as `schema."Name"`, as PostgreSQL parses them; `None` if it is not of
/// that form.
pub fn name_parts(text: &str) -> Option<Vec<String>> {
    let mut parts = vec![];
    let mut expects_name = true;
    for token in tokens(text) {
        match token {
            Token::Word(name) if expects_name => parts.push(name),
            Token::Sign(sign) if sign == "." && !expects_name => {}
            _ => return None,
        }
        expects_name = !expects_name;
    }
    (!expects_name).then_some(parts)
}

/// An abstract value.
#[derive(Clone, PartialEq, Debug)]
enum Value {
    Int(i64),
    Text(String),
    /// Unknown, but not derived from the clock or a sequence: an argument, a setting, a column of a
    /// table.
    Other,
    /// A timestamp with time zone.
    Now,
    Seconds(Number),
    Millis(Number),
    /// Milliseconds since this epoch.
    Since(Option<i64>, Number),
    /// Milliseconds since this epoch, shifted by this many bits.
    Time(Option<i64>, i64),
    /// A number shifted by this many bits.
    Shard(Option<i64>, i64),
    /// An unknown number, perhaps not a whole one, times 1024.
    Product,
    Nextval,
    /// One or more parts of the id.
    Id(Parts),
    /// Derived from the clock or a sequence in a way that the original does not use.
    Derived,
}

/// Whether arithmetic on a number from the clock is exact. Only a bigint can be shifted, but a
/// product of another number can have a fraction, or be rounded.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Number {
    /// It may be a double precision number.
    Any,
    /// Of a type that does not round.
    Exact,
    /// The same, and without a fraction.
    Whole,
}

impl Number {
    /// After floor() and the like.
    fn without_fraction(self) -> Number {
        if self == Number::Any { Number::Any } else { Number::Whole }
    }

    fn cast(self, to: &str) -> Number {
        match (self, to) {
            (_, "int8" | "bigint") => Number::Whole,
            (Number::Any, "numeric") => Number::Exact,
            _ => self,
        }
    }
}

/// A part of the id in a value, with its constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Absent,
    Unknown,
    Known(i64),
}

impl Part {
    fn of(constant: Option<i64>) -> Part {
        constant.map_or(Part::Unknown, Part::Known)
    }

    /// That of two values; `None` if both have one.
    fn or(self, other: Part) -> Option<Part> {
        match (self, other) {
            (Part::Absent, part) | (part, Part::Absent) => Some(part),
            _ => None,
        }
    }

    /// The constant, if it is known.
    fn constant(self, if_absent: Difference) -> Result<Option<i64>, Difference> {
        match self {
            Part::Absent => Err(if_absent),
            Part::Unknown => Ok(None),
            Part::Known(constant) => Ok(Some(constant)),
        }
    }
}

/// The parts of the id that a value contains.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Parts {
    epoch: Part,
    shard: Part,
    sequence: bool,
}

impl Parts {
    const NONE: Parts = Parts { epoch: Part::Absent, shard: Part::Absent, sequence: false };
}

const SEQUENCE: Value = Value::Id(Parts { sequence: true, ..Parts::NONE });

impl Value {
    /// Whether it may change from one call to the next.
    fn is_live(&self) -> bool {
        !matches!(
            self,
            Value::Int(_) | Value::Text(_) | Value::Other | Value::Shard(..) | Value::Product
        )
    }

    fn parts(&self) -> Result<Parts, Difference> {
        match *self {
            Value::Id(parts) => Ok(parts),
            Value::Time(epoch, 23) => Ok(Parts { epoch: Part::of(epoch), ..Parts::NONE }),
            Value::Time(_, bits) => Err(Difference::TimeShift(bits)),
            Value::Shard(shard, 10) => Ok(Parts { shard: Part::of(shard), ..Parts::NONE }),
            Value::Shard(_, bits) => Err(Difference::ShardShift(bits)),
            Value::Product => Err(Difference::ShardProduct),
            Value::Nextval => Err(Difference::SequenceNotReduced),
            _ => Err(Difference::Unrecognised),
        }
    }

    fn cast(self, to: &str) -> Value {
        match (&self, to) {
            // Shifted by 10 bits a smallint is still a smallint, and loses its high bits.
            (Value::Int(n), "smallint" | "int2") if !(-32..=31).contains(n) => Value::Other,
            (Value::Text(_), "text" | "regclass") => self,
            (Value::Text(_) | Value::Now, _) => mixed(&[self]),
            // Shifted by 23 bits an integer is still an integer, and loses its high bits.
            (Value::Since(..), "smallint" | "int2" | "int" | "integer" | "int4") => mixed(&[self]),
            (Value::Seconds(number), "numeric") => Value::Seconds(number.cast(to)),
            (
                Value::Seconds(_),
                "int" | "integer" | "int4" | "int8" | "bigint" | "smallint" | "int2",
            ) => Value::Seconds(Number::Whole),
            (Value::Millis(number), "int8" | "bigint" | "numeric") => {
                Value::Millis(number.cast(to))
            }
            (Value::Since(epoch, number), "int8" | "bigint" | "numeric") => {
                Value::Since(*epoch, number.cast(to))
            }
            (
                _,
                "int" | "integer" | "int4" | "int8" | "bigint" | "smallint" | "int2" | "numeric",
            ) => self,
            _ => mixed(&[self]),
        }
    }
}

fn mixed(values: &[Value]) -> Value {
    if values.iter().any(Value::is_live) { Value::Derived } else { Value::Other }
}

/// Applies an operator. Only the operations listed here lead to an id; the result of any other
/// cannot become a part of one.
fn binary(left: Value, operator: &str, right: Value) -> Result<Value, Difference> {
    use Value::*;
    Ok(match (left, operator, right) {
        // The original could repeat the ids of a whole second.
        (Seconds(number), "*", Int(1000)) | (Int(1000), "*", Seconds(number))
            if number != Number::Whole =>
        {
            Millis(number)
        }
        (Seconds(_), ..) | (.., Seconds(_)) => return Err(Difference::NotMilliseconds),
        (Millis(number), "-", Int(epoch)) => Since(Some(epoch), number),
        (Millis(_), "-", Other | Shard(..) | Product) => Since(None, Number::Any),
        (Millis(_), "<<", _)
        | (Millis(_), "*", Int(TIME_FACTOR))
        | (Int(TIME_FACTOR), "*", Millis(_)) => {
            return Err(Difference::NoEpoch);
        }
        (Since(epoch, _), "<<", Int(bits)) => Time(epoch, bits),
        (Since(epoch, number), "*", Int(factor)) | (Int(factor), "*", Since(epoch, number))
            if factor > 1 && factor.count_ones() == 1 =>
        {
            if factor == TIME_FACTOR && number != Number::Whole {
                return Err(Difference::NotWhole);
            }
            Time(epoch, i64::from(factor.trailing_zeros()))
        }
        (Int(_) | Other | Derived, "<<", Int(23)) => return Err(Difference::NotTheTime),
        (Int(shard), "<<", Int(bits)) => Shard(Some(shard), bits),
        (Other, "<<", Int(bits)) => Shard(None, bits),
        (Int(shard), "*", Int(1024)) | (Int(1024), "*", Int(shard)) => Shard(Some(shard), 10),
        (Other, "*", Int(1024)) | (Int(1024), "*", Other) => Product,
        (Nextval | SEQUENCE, "%", Int(1024))
        | (Nextval | SEQUENCE, "&", Int(1023))
        | (Int(1023), "&", Nextval | SEQUENCE) => SEQUENCE,
        // Adding a multiple of 1024 does not change the value modulo 1024, as in MOD(1024 +
        // MOD(nextval(...), 1024), 1024).
        (Nextval | SEQUENCE, "+", Int(n)) | (Int(n), "+", Nextval | SEQUENCE)
            if n >= 0 && n % 1024 == 0 =>
        {
            Nextval
        }
        (Nextval, "%", Int(modulus)) => return Err(Difference::SequenceModulo(modulus)),
        (Nextval, ..) | (.., Nextval) => return Err(Difference::SequenceNotReduced),
        (left, "|", right) if left.is_live() || right.is_live() => joined(&left, &right)?,
        // The parts share no bits, so their sum is the same.
        (left @ (Time(..) | Id(_)), "+", right) | (left, "+", right @ (Time(..) | Id(_))) => {
            joined(&left, &right)?
        }
        (left, _, right) => mixed(&[left, right]),
    })
}

/// The factor that shifts by 23 bits.
const TIME_FACTOR: i64 = 1 << 23;

/// Joins the parts of two values. Each part must be in only one of them.
fn joined(left: &Value, right: &Value) -> Result<Value, Difference> {
    let (a, b) = (left.parts()?, right.parts()?);
    match (a.epoch.or(b.epoch), a.shard.or(b.shard)) {
        (Some(epoch), Some(shard)) if !(a.sequence && b.sequence) => {
            Ok(Value::Id(Parts { epoch, shard, sequence: a.sequence || b.sequence }))
        }
        _ => Err(Difference::Unrecognised),
    }
}

/// The variables of a block at the current statement.
#[derive(Default)]
struct Block {
    types: HashMap<String, String>,
    values: HashMap<String, Value>,
    /// The undeclared variable that was assigned last: the OUT argument.
    out: Option<String>,
    /// The literal in every call of nextval; `None` for a call with anything else.
    sequences: Vec<Option<String>>,
}

impl Block {
    /// `name [CONSTANT] type [NOT NULL] [{:= | = | DEFAULT} value]`
    fn declare(&mut self, name: &str, rest: &[Token]) -> Result<(), Difference> {
        let assign =
            rest.iter().position(|token| [":=", "=", "default"].iter().any(|&sign| token.is(sign)));
        let mut kind = Expression::new(rest, self);
        kind.eat("constant");
        let kind = kind.type_name();
        self.types.insert(name.to_owned(), kind);
        if let Some(at) = assign {
            let value = self.value(&rest[at + 1..])?;
            self.assign(name, value);
        }
        Ok(())
    }

    /// `SELECT value INTO name`, or with `INTO name` before the value.
    fn select_into(&mut self, rest: &[Token]) -> Result<(), Difference> {
        let into = rest.iter().position(|token| token.is("into")).unwrap_or(rest.len());
        let (before, mut after) = rest.split_at(into);
        while let [first, others @ ..] = after
            && (first.is("into") || first.is("strict"))
        {
            after = others;
        }
        match after {
            [Token::Word(name), after @ ..]
                if !after.first().is_some_and(|token| token.is(",")) =>
            {
                let value = self.value(&[before, after].concat())?;
                self.assign(name, value);
                Ok(())
            }
            _ => Err(Difference::Statement("SELECT that is not INTO one variable".to_owned())),
        }
    }

    fn assign(&mut self, name: &str, value: Value) {
        let value = match (self.types.get(name), value) {
            // A variable that is assigned more than once has no certain constant. The name of a
            // sequence is read only from a literal in nextval.
            (_, Value::Int(_)) if self.values.contains_key(name) => Value::Other,
            (_, Value::Text(_)) => Value::Other,
            (Some(kind), value) => value.cast(kind),
            (None, value) => value,
        };
        if !self.types.contains_key(name) {
            self.out = Some(name.to_owned());
        }
        self.values.insert(name.to_owned(), value);
    }

    fn value(&mut self, tokens: &[Token]) -> Result<Value, Difference> {
        let mut expression = Expression::new(tokens, self);
        let value = expression.operation(1)?;
        if !expression.lost && expression.tokens.is_empty() {
            return Ok(value);
        }
        // Not parsed. All that matters is whether it may contain the clock or a sequence.
        let live = |token: &Token| match token {
            Token::Word(name) => {
                name == "nextval"
                    || is_clock(name)
                    || self.values.get(name).is_some_and(Value::is_live)
            }
            _ => false,
        };
        Ok(if tokens.iter().any(live) { Value::Derived } else { Value::Other })
    }

    fn finish(self, id: Value) -> Result<Original, Difference> {
        let parts = id.parts()?;
        let [first, others @ ..] = &self.sequences[..] else {
            return Err(Difference::SequenceNotReduced);
        };
        if !parts.sequence {
            return Err(Difference::SequenceNotReduced);
        }
        Ok(Original {
            epoch_ms: parts.epoch.constant(Difference::NoTime)?,
            shard: parts.shard.constant(Difference::NoShard)?,
            sequence: first.clone().filter(|_| others.iter().all(|other| other == first)),
        })
    }
}

/// Deeper nesting is not parsed, because the parser's recursion uses the backend's stack.
const DEPTH_MAX: u32 = 50;

/// The rest of an expression during its evaluation.
struct Expression<'a> {
    tokens: &'a [Token],
    block: &'a mut Block,
    depth: u32,
    /// Something could not be parsed, and no tokens are left.
    lost: bool,
}

impl<'a> Expression<'a> {
    fn new(tokens: &'a [Token], block: &'a mut Block) -> Self {
        Expression { tokens, block, depth: 0, lost: false }
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.tokens.first().is_some_and(|token| token.is(text));
        self.tokens = &self.tokens[found as usize..];
        found
    }

    fn expect(&mut self, text: &str) {
        if !self.eat(text) {
            self.lose();
        }
    }

    fn lose(&mut self) -> Value {
        self.lost = true;
        self.tokens = &[];
        Value::Other
    }

    fn list(&mut self) -> Result<Vec<Value>, Difference> {
        let mut values = vec![self.operation(1)?];
        while self.eat(",") {
            values.push(self.operation(1)?);
        }
        Ok(values)
    }

    /// An expression of operators that bind at least this tightly. All of them are
    /// left-associative.
    fn operation(&mut self, tightness: u32) -> Result<Value, Difference> {
        self.depth += 1;
        let mut left = self.operand()?;
        while let Some((Token::Sign(operator), rest)) = self.tokens.split_first() {
            let its_tightness = match &operator[..] {
                "*" | "/" | "%" => 3,
                "+" | "-" => 2,
                "<<" | ">>" | "|" | "&" | "#" | "||" => 1,
                _ => break,
            };
            if its_tightness < tightness {
                break;
            }
            self.tokens = rest;
            let right = self.operation(its_tightness + 1)?;
            left = binary(left, operator, right)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operand(&mut self) -> Result<Value, Difference> {
        let Some((first, rest)) = self.tokens.split_first() else {
            return Ok(self.lose());
        };
        if self.depth > DEPTH_MAX {
            return Ok(self.lose());
        }
        let all = std::mem::replace(&mut self.tokens, rest);
        let mut value = match first {
            Token::Number(number) => number.map_or(Value::Other, Value::Int),
            Token::Text(text) => Value::Text(text.clone()),
            Token::Opaque => Value::Other,
            Token::Word(_) => {
                self.tokens = all;
                self.named()?
            }
            Token::Sign(sign) if sign == "(" => {
                self.eat("select");
                let value = self.operation(1)?;
                self.expect(")");
                value
            }
            Token::Sign(sign) if sign == "-" => {
                self.depth += 1;
                let value = self.operand()?;
                self.depth -= 1;
                match value {
                    Value::Int(n) => n.checked_neg().map_or(Value::Other, Value::Int),
                    value => mixed(&[value]),
                }
            }
            Token::Sign(_) => self.lose(),
        };
        while self.eat("::") {
            value = value.cast(&self.type_name());
        }
        Ok(value)
    }

    /// A variable or a function call.
    fn named(&mut self) -> Result<Value, Difference> {
        let name = self.qualified();
        if !self.eat("(") {
            return Ok(match self.block.values.get(&name) {
                Some(value) => value.clone(),
                None if name == "current_timestamp" => Value::Now,
                None => Value::Other,
            });
        }
        if name == "extract" {
            self.expect("epoch");
            self.expect("from");
        }
        let arguments = if self.eat(")") {
            vec![]
        } else {
            let mut list = self.list()?;
            if name == "cast" {
                self.expect("as");
                let kind = self.type_name();
                list = list.into_iter().map(|value| value.cast(&kind)).collect();
            }
            self.expect(")");
            list
        };
        Ok(match (&name[..], &arguments[..]) {
            ("nextval", [given]) => {
                let literal = if let Value::Text(text) = given { Some(text.clone()) } else { None };
                self.block.sequences.push(literal);
                Value::Nextval
            }
            (name, []) if is_clock(name) => Value::Now,
            ("extract", [Value::Now]) => Value::Seconds(Number::Exact), // of type numeric
            ("date_part", [Value::Text(part), Value::Now]) if part == "epoch" => {
                Value::Seconds(Number::Any)
            }
            ("floor" | "ceil" | "ceiling" | "round" | "trunc", [value]) => match value.clone() {
                Value::Seconds(_) => Value::Seconds(Number::Whole),
                Value::Millis(number) => Value::Millis(number.without_fraction()),
                Value::Since(epoch, number) => Value::Since(epoch, number.without_fraction()),
                value => value,
            },
            ("cast", [value]) => value.clone(),
            ("mod", [left, right]) => binary(left.clone(), "%", right.clone())?,
            _ => mixed(&arguments),
        })
    }

    fn qualified(&mut self) -> String {
        let mut name = String::new();
        loop {
            let Some((Token::Word(part), rest)) = self.tokens.split_first() else {
                self.lose();
                return name;
            };
            self.tokens = rest;
            name = match &name[..] {
                "" | "pg_catalog" => part.clone(),
                schema => format!("{schema}.{part}"),
            };
            if !self.eat(".") {
                return name;
            }
        }
    }

    /// A type with a modifier, such as numeric(20, -3), is not parsed.
    fn type_name(&mut self) -> String {
        let name = self.qualified();
        if self.eat("(") {
            self.lose();
            return String::new();
        }
        name
    }
}

fn is_clock(function: &str) -> bool {
    let clocks = [
        "clock_timestamp",
        "now",
        "statement_timestamp",
        "transaction_timestamp",
        "current_timestamp",
    ];
    clocks.contains(&function)
}

#[derive(Clone, PartialEq, Debug)]
enum Token {
    /// A keyword or a name, in lower case unless it was quoted.
    Word(String),
    /// `None` if it is not a 64-bit integer.
    Number(Option<i64>),
    Text(String),
    /// An operator or punctuation.
    Sign(String),
    /// A value that is not evaluated, such as `$1`.
    Opaque,
}

impl Token {
    fn is(&self, text: &str) -> bool {
        matches!(self, Token::Word(own) | Token::Sign(own) if own == text)
    }
}

fn tokens(body: &str) -> Vec<Token> {
    let mut tokens = vec![];
    let mut rest = body;
    while let Some(first) = rest.chars().next() {
        let string = |text: Option<String>| Some(text.map_or(Token::Opaque, Token::Text));
        let (token, len) = match first {
            _ if first.is_whitespace() => (None, first.len_utf8()),
            _ if rest.starts_with("--") => (None, rest.find('\n').unwrap_or(rest.len())),
            _ if rest.starts_with("/*") => (None, comment_len(rest)),
            'e' | 'E' if rest[1..].starts_with('\'') => {
                let (text, len) = quoted(&rest[1..], '\'', true);
                (string(text), len + 1)
            }
            '\'' => {
                let (text, len) = quoted(rest, '\'', false);
                (string(text), len)
            }
            '"' => {
                let (name, len) = quoted(rest, '"', false);
                (Some(name.map_or(Token::Opaque, Token::Word)), len)
            }
            '$' => (Some(Token::Opaque), dollar_len(rest)),
            _ if first.is_ascii_digit() => {
                let len = prefix_len(rest, |c| is_name_char(c) || c == '.');
                (Some(Token::Number(whole(&rest[..len]))), len)
            }
            _ if is_name_char(first) => {
                let len = prefix_len(rest, is_name_char);
                (Some(Token::Word(rest[..len].to_ascii_lowercase())), len)
            }
            _ => {
                let pair = ["<<", ">>", "||", "::", ":=", "%%"]
                    .into_iter()
                    .find(|&pair| rest.starts_with(pair));
                let sign = pair.unwrap_or(&rest[..first.len_utf8()]);
                // Some published bodies have the % doubled, as an escape for Python.
                let token = Token::Sign(if sign == "%%" { "%" } else { sign }.to_owned());
                (Some(token), sign.len())
            }
        };
        tokens.extend(token);
        rest = &rest[len..];
    }
    tokens
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii()
}

fn prefix_len(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

fn whole(number: &str) -> Option<i64> {
    let whole = number.trim_end_matches('0').strip_suffix('.').unwrap_or(number);
    whole.replace('_', "").parse().ok()
}

/// The length of the comment at the start. Comments nest.
fn comment_len(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while let Some(pair) = text.as_bytes().get(at..at + 2) {
        let (change, len) = match pair {
            b"/*" => (1, 2),
            b"*/" => (-1, 2),
            _ => (0, 1),
        };
        (depth, at) = (depth + change, at + len);
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The text in the quotes at the start, and its length with them. `None` if the quotes do not end,
/// or contain an escape for another character.
fn quoted(text: &str, quote: char, backslash_escapes: bool) -> (Option<String>, usize) {
    let (mut inner, mut readable) = (String::new(), true);
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == quote && chars.next_if(|&(_, next)| next == quote).is_none() {
            return (readable.then_some(inner), at + 1);
        }
        match chars.next_if(|_| c == '\\' && backslash_escapes) {
            Some((_, escaped)) => {
                readable &= !escaped.is_alphanumeric();
                inner.push(escaped);
            }
            None => inner.push(c),
        }
    }
    (None, text.len())
}

/// The length of a parameter such as `$1`. A dollar-quoted string and all text after it are not
/// read, so for these it is the length of the rest.
fn dollar_len(text: &str) -> usize {
    match prefix_len(&text[1..], |c| c.is_ascii_digit()) {
        0 => text.len(),
        digits => 1 + digits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PUBLISHED: &str = "
    DECLARE
        our_epoch bigint := 1314220021721;
        seq_id bigint;
        now_millis bigint;
        shard_id int := 5;
    BEGIN
        SELECT nextval('insta5.table_id_seq') % 1024 INTO seq_id;
        SELECT FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) INTO now_millis;
        result := (now_millis - our_epoch) << 23;
        result := result | (shard_id << 10);
        result := result | (seq_id);
    END;
";
    const EPOCH_MS: i64 = 1_314_220_021_721;
    const EPOCH: &str = "our_epoch bigint := 1314220021721";
    const SHARD: &str = "shard_id int := 5";
    const SEQUENCE: &str = "nextval('insta5.table_id_seq') % 1024";
    const SEQUENCE_TAKEN: &str = "SELECT nextval('insta5.table_id_seq') % 1024 INTO seq_id";
    const NAME: &str = "'insta5.table_id_seq'";
    const CLOCK: &str = "FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)";
    const TIME_PUT: &str = "(now_millis - our_epoch) << 23";
    const SHARD_PUT: &str = "result | (shard_id << 10)";
    const SEQUENCE_PUT: &str = "result | (seq_id)";
    const ID_MADE: &str = "result := (now_millis - our_epoch) << 23;
        result := result | (shard_id << 10);
        result := result | (seq_id)";

    /// The published body with one part replaced.
    #[track_caller]
    fn with(part: &str, instead: &str) -> String {
        assert!(PUBLISHED.contains(part), "{part}");
        PUBLISHED.replacen(part, instead, 1)
    }

    #[track_caller]
    fn reads(body: &str, epoch_ms: Option<i64>, shard: Option<i64>, sequence: Option<&str>) {
        let sequence = sequence.map(str::to_owned);
        assert_eq!(read(body), Ok(Original { epoch_ms, shard, sequence }), "{body}");
    }

    #[track_caller]
    fn reads_as_published(body: &str) {
        reads(body, Some(EPOCH_MS), Some(5), Some("insta5.table_id_seq"));
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a list of bodies")]
    fn other_ways_to_write_it() {
        let cases = [
            ("DECLARE", "DECLARE DECLARE"),
            (SEQUENCE, "nextval('insta5.table_id_seq') %% 1024"),
            (SEQUENCE, "nextval('insta5.table_id_seq')%1024"),
            (SEQUENCE, "nextval('insta5.table_id_seq') & 1023"),
            (SEQUENCE, "mod(nextval('insta5.table_id_seq'), 1024)"),
            (SEQUENCE, "nextval('insta5.table_id_seq')::BIGINT % 1024::bigint"),
            (SEQUENCE, "MOD(1024 + MOD(nextval('insta5.table_id_seq'), 1024), 1024)"),
            (SEQUENCE, "((nextval('insta5.table_id_seq') % 1024) + 1024) % 1024"),
            (SEQUENCE, "(nextval('insta5.table_id_seq') + 2048) & 1023"),
            (SEQUENCE, "mod(nextval('insta5.table_id_seq') % 1024, 1024)"),
            (SEQUENCE, "pg_catalog.nextval('insta5.table_id_seq') % 1024"),
            (SEQUENCE_TAKEN, "seq_id := nextval('insta5.table_id_seq') % 1024"),
            (SEQUENCE_TAKEN, "seq_id = (SELECT nextval('insta5.table_id_seq') % 1024)"),
            (SEQUENCE_TAKEN, "SELECT INTO STRICT seq_id nextval('insta5.table_id_seq') % 1024"),
            (SEQUENCE_TAKEN, "seq_id := nextval('insta5.table_id_seq'); seq_id := seq_id % 1024"),
            (
                SEQUENCE_TAKEN,
                "now_millis := 1024; seq_id := nextval('insta5.table_id_seq') % now_millis",
            ),
            (SEQUENCE_PUT, "result | (seq_id::bigint)"),
            (NAME, "'insta5.table_id_seq'::regclass"),
            (NAME, "('insta5.table_id_seq'::text)::pg_catalog.regclass"),
            (NAME, "CAST('insta5.table_id_seq' AS regclass)"),
            (NAME, "E'insta5.table_id_seq'"),
            (CLOCK, "floor(extract(epoch from now())*1000)::bigint"),
            (CLOCK, "(1000 * date_part('epoch', statement_timestamp()))::int8"),
            (CLOCK, "trunc(EXTRACT(EPOCH FROM current_timestamp)::numeric * 1000.0)"),
            (CLOCK, "round(EXTRACT(EPOCH FROM pg_catalog.transaction_timestamp()) * 1000)"),
            (CLOCK, "CAST(EXTRACT(EPOCH FROM current_timestamp) * 1000 AS bigint)"),
            (EPOCH, "our_epoch CONSTANT int8 NOT NULL = 1314220021721::bigint"),
            (EPOCH, "our_epoch pg_catalog.int8 DEFAULT CAST(1314220021721 AS bigint)"),
            (EPOCH, "our_epoch bigint:=- -1314220021721.0"),
            (TIME_PUT, "now_millis - our_epoch << 23"),
            (TIME_PUT, "(((now_millis) - 1314220021721::bigint)::bigint) << (23)"),
            (SHARD, "shard_id smallint NOT NULL := 5"),
            (SHARD, "\"shard_id\" integer default 5"),
            (SHARD, "Shard_ID INT4 :=5"),
            (SHARD_PUT, "result | (5 << 10)"),
            (SHARD_PUT, "result | (5::bigint << 10)"),
            (SHARD_PUT, "(shard_id::bigint << 10) | result"),
            (ID_MADE, "result := ((now_millis - our_epoch) << 23) | (shard_id << 10) | seq_id"),
            (ID_MADE, "result := now_millis - our_epoch << 23 | (shard_id << 10) | seq_id"),
            (
                ID_MADE,
                "result := seq_id | ((shard_id << 10) | ((now_millis - our_epoch) << 23)); NULL",
            ),
            // Arithmetic with the same result, on whole numbers without rounding.
            (TIME_PUT, "(now_millis - our_epoch) * 8388608"),
            (TIME_PUT, "8388608 * (now_millis - our_epoch)"),
            (SHARD_PUT, "result | (shard_id * 1024)"),
            (SHARD_PUT, "result | (1024 * 5)"),
            (SHARD_PUT, "result + shard_id * 1024"),
            (SHARD_PUT, "result + (shard_id << 10)"),
            (SHARD_PUT, "(shard_id << 10) + result"),
            (SEQUENCE_PUT, "result + seq_id"),
            (SEQUENCE_PUT, "seq_id + result"),
            (ID_MADE, "result := (now_millis - our_epoch) * 8388608 + 5 * 1024 + seq_id"),
            (ID_MADE, "result := seq_id + shard_id * 1024 + (now_millis - our_epoch) * 8388608"),
            (ID_MADE, "result := (now_millis - our_epoch) * 8388608 + (shard_id << 10 | seq_id)"),
            (
                ID_MADE,
                "result := (FLOOR(EXTRACT(EPOCH FROM now()) * 1000) - our_epoch) * 8388608 + 5 * 1024 + seq_id",
            ),
            (
                ID_MADE,
                "result := (date_part('epoch', now()) * 1000)::bigint * 1; result := ((date_part('epoch', now()) * 1000)::bigint \
                 - our_epoch) * 8388608 + 5 * 1024 + seq_id",
            ),
            (EPOCH, "our_epoch bigint := 1314220021721; shard_bits int := 5 * 1024"),
            ("result := (now", "RAISE DEBUG 'at %', now_millis; NULL; result := (now"),
            ("BEGIN", "/* epoch /* of */ 2011; */ BEGIN -- begin; it's all"),
            ("END;", "END"),
            ("END;", "RETURN; END;"),
        ];
        reads_as_published(PUBLISHED);
        for (part, instead) in cases {
            reads_as_published(&with(part, instead));
        }
    }

    #[test]
    fn other_ways_to_write_all_of_it() {
        reads_as_published(
            &PUBLISHED.to_uppercase().replace("INSTA5.TABLE_ID_SEQ", "insta5.table_id_seq"),
        );
        reads_as_published(&PUBLISHED.replace(' ', "/**/\t"));
        let names = [
            ("our_epoch", "e"),
            ("seq_id", "größe"),
            ("now_millis", "\"My Time\""),
            ("result", "id"),
        ];
        reads_as_published(
            &names.iter().fold(PUBLISHED.into(), |body: String, (a, b)| body.replace(a, b)),
        );
        reads_as_published(
            &with("seq_id bigint;", "seq_id bigint; result bigint := 0;")
                .replace("END;", "RETURN result; END;"),
        );
        reads_as_published(&with(
            ID_MADE,
            "RETURN ((now_millis - our_epoch) << 23) | (shard_id << 10) | seq_id",
        ));
        reads_as_published(&with(SHARD, "shard_id int").replace("BEGIN", "BEGIN shard_id := 5;"));
        reads(
            "begin return (floor(extract(epoch from clock_timestamp()) * 1000)::bigint - 1577836800000) << 23
                | (8191 << 10) | (nextval('s') % 1024); end",
            Some(1_577_836_800_000),
            Some(8191),
            Some("s"),
        );
    }

    #[test]
    fn epochs() {
        let cases = [
            (EPOCH, "our_epoch bigint := 0", Some(0)),
            (EPOCH, "our_epoch bigint := -1000", Some(-1000)),
            (EPOCH, "our_epoch numeric := 1_314_220_021_721", Some(EPOCH_MS)),
            (EPOCH, "our_epoch bigint := 9223372036854775807", Some(i64::MAX)),
            (EPOCH, "our_epoch bigint := 9223372036854775808", None),
            (EPOCH, "our_epoch bigint := -99999999999999999999", None),
            (EPOCH, "our_epoch bigint := 1314220021721.5", None),
            (EPOCH, "our_epoch bigint := 0x1F", None),
            (EPOCH, "our_epoch bigint := 1.3e12", None),
            (EPOCH, "our_epoch bigint := 1314220021 * 1000", None),
            (EPOCH, "our_epoch real := 1314220021721", None),
            (EPOCH, "our_epoch numeric(20, -3) := 1314220021721", None),
            (
                EPOCH,
                "our_epoch bigint := extract(epoch from timestamptz '2011-08-24') * 1000",
                None,
            ),
            (EPOCH, "our_epoch bigint", None),
            (TIME_PUT, "(now_millis - $1) << 23", None),
            (TIME_PUT, "(now_millis - launch.at) << 23", None),
        ];
        for (part, instead, epoch_ms) in cases {
            reads(&with(part, instead), epoch_ms, Some(5), Some("insta5.table_id_seq"));
        }
    }

    #[test]
    fn shards() {
        let cases = [
            (SHARD, "shard_id int := -5", Some(-5)),
            (SHARD, "shard_id int := 8192", Some(8192)),
            (SHARD, "shard_id int", None),
            (SHARD, "shard_id ALIAS FOR $2", None),
            (SHARD, "shard_id int := public.get_shard()", None),
            (SHARD, "shard_id int := current_setting('app.shard')::int", None),
            (SHARD, "shard_id int := replace(current_schema(), 'insta', '')::int", None),
            (SHARD, "shard_id int := CASE WHEN current_schema = 'a' THEN 5 ELSE 6 END", None),
            (SHARD, "shard_id int := (2 << 5) | 1", None),
            // As a smallint, shifted, it would be 100 * 1024 modulo 65536.
            (SHARD, "shard_id smallint := 100", None),
            (SHARD, "shard_id smallint := 32", None),
            (SHARD, "shard_id smallint := 31", Some(31)),
            (SHARD_PUT, "result | (100::int2 << 10)", None),
            (SHARD_PUT, "result | ((5 % 8192) << 10)", None),
            (SHARD_PUT, "result | (node << 10)", None),
            ("BEGIN", "BEGIN shard_id := 6;", None),
            ("BEGIN", "BEGIN shard_id := shard_id % 8192;", None),
            (
                "BEGIN",
                "BEGIN SELECT shard FROM shards WHERE name = current_schema() INTO shard_id;",
                None,
            ),
            ("BEGIN", "BEGIN SELECT INTO shard_id id FROM shards;", None),
        ];
        for (part, instead, shard) in cases {
            reads(&with(part, instead), Some(EPOCH_MS), shard, Some("insta5.table_id_seq"));
        }
    }

    #[test]
    fn sequences() {
        let cases = [
            (NAME, "'\"My Schema\".\"seq\"'", Some("\"My Schema\".\"seq\"")),
            (NAME, "'it''s'", Some("it's")),
            (NAME, r"E'it\'s \\ '''", Some(r"it's \ '")),
            (NAME, r"'a\b'", Some(r"a\b")),
            (NAME, r"e'\x61'", None),
            (NAME, "name", None),
            (NAME, "$1", None),
            (NAME, "current_schema() || '.table_id_seq'", None),
            (NAME, "'public.' || name || '_id_seq'", None),
            (NAME, "format('%I.table_id_seq', current_schema())", None),
            (
                "BEGIN",
                "BEGIN now_millis := nextval('insta5.table_id_seq');",
                Some("insta5.table_id_seq"),
            ),
            ("BEGIN", "BEGIN now_millis := nextval('other');", None),
            ("BEGIN", "BEGIN now_millis := nextval(name);", None),
        ];
        for (part, instead, sequence) in cases {
            reads(&with(part, instead), Some(EPOCH_MS), Some(5), sequence);
        }
        let named =
            with(NAME, "name").replace("DECLARE", "DECLARE name text := 'insta5.table_id_seq';");
        reads(&named, Some(EPOCH_MS), Some(5), None);
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a list of bodies")]
    fn differences() {
        use Difference::*;
        let cases = [
            (TIME_PUT, "(now_millis - our_epoch) << 22", TimeShift(22)),
            (ID_MADE, "result := (now_millis - our_epoch) << 19", TimeShift(19)),
            (TIME_PUT, "(now_millis - our_epoch) * 4194304", TimeShift(22)),
            (TIME_PUT, "(now_millis - our_epoch) * 8388607", Unrecognised),
            (TIME_PUT, "(now_millis - our_epoch) * 25165824", Unrecognised),
            (SEQUENCE_PUT, "result; END := result | seq_id", SequenceNotReduced),
            (TIME_PUT, "now_millis * 8388608", NoEpoch),
            // A fraction of a millisecond would get into the shard, and a double precision value is
            // rounded.
            (
                ID_MADE,
                "result := (EXTRACT(EPOCH FROM now()) * 1000 - our_epoch) * 8388608 + 5120",
                NotWhole,
            ),
            (
                ID_MADE,
                "result := (floor(date_part('epoch', now()) * 1000) - our_epoch) * 8388608",
                NotWhole,
            ),
            (TIME_PUT, "(now_millis - launch.at) * 8388608", NotWhole),
            // Another precedence: this is now << (23 + 5 * 1024).
            (ID_MADE, "result := (now_millis - our_epoch) << 23 + 5 * 1024 + seq_id", Unrecognised),
            // As an integer it loses its high bits.
            (TIME_PUT, "(now_millis - our_epoch)::int << 23", NotTheTime),
            (SHARD_PUT, "result + shard_id", Unrecognised),
            (SHARD_PUT, "result + 5120", Unrecognised),
            (SHARD_PUT, "result + current_setting('app.shard')::int * 1024", ShardProduct),
            (SHARD_PUT, "result + shard_id * 1024 + shard_id * 1024", Unrecognised),
            (SHARD_PUT, "result - shard_id * 1024", Unrecognised),
            (SEQUENCE_PUT, "result + seq_id + seq_id", Unrecognised),
            (SEQUENCE_PUT, "result + (seq_id + 1024)", SequenceNotReduced),
            (
                ID_MADE,
                "result := concat((now_millis - our_epoch)::bit(41), shard_id::bit(13), (nextval('s') % 1024)::bit(10))::bit(64)::bigint",
                Unrecognised,
            ),
            (TIME_PUT, "(now_millis - our_epoch) << bits", Unrecognised),
            (TIME_PUT, "0", Unrecognised),
            (TIME_PUT, "((now_millis - our_epoch) / 10) << 23", NotTheTime),
            (TIME_PUT, "(now_millis - our_epoch - 5) << 23", NotTheTime),
            (TIME_PUT, "(our_epoch - now_millis) << 23", NotTheTime),
            (TIME_PUT, "(asked_at - our_epoch) << 23", NotTheTime),
            (TIME_PUT, "now_millis << 23", NoEpoch),
            (SHARD_PUT, "result | (shard_id << 12)", ShardShift(12)),
            (SEQUENCE_PUT, "result | (seq_id) | (1 << 62)", ShardShift(62)),
            (SHARD_PUT, "result | (shard_id << 10) | (7 << 10)", Unrecognised),
            (SHARD_PUT, "result", NoShard),
            // In PostgreSQL | and << have the same precedence.
            (SHARD_PUT, "result | shard_id << 10", Unrecognised),
            (SHARD_PUT, "result | (shard_id << 10 + 1)", Unrecognised),
            (SHARD_PUT, "result # (shard_id << 10)", Unrecognised),
            // The high bits of the sequence are not a shard.
            (SHARD_PUT, "result | (nextval('s') / 1024 << 10)", SequenceNotReduced),
            (SHARD_PUT, "result | (seq_id / 2 << 10)", Unrecognised),
            (SEQUENCE, "nextval('s') % 4096", SequenceModulo(4096)),
            (SEQUENCE, "mod(nextval('s'), 2048)", SequenceModulo(2048)),
            (SEQUENCE, "nextval('s')", SequenceNotReduced),
            (SEQUENCE, "nextval('s') & 4095", SequenceNotReduced),
            (SEQUENCE, "nextval('s') % fields", SequenceNotReduced),
            (SEQUENCE, "(nextval('s') - 1) % 1024", SequenceNotReduced),
            (SEQUENCE, "(nextval('s') + 1) % 1024", SequenceNotReduced),
            (SEQUENCE, "(nextval('s') % 1024) + 1024", SequenceNotReduced),
            (SEQUENCE, "mod(1024 + mod(nextval('s'), 1024), 2048)", SequenceModulo(2048)),
            // A negative value would stay negative.
            (SEQUENCE, "(nextval('s') + -1024) % 1024", SequenceNotReduced),
            (SEQUENCE_PUT, "result", SequenceNotReduced),
            (SEQUENCE, "my.nextval('s') % 1024", Unrecognised),
            (SEQUENCE, "currval('nextval') % 1024", NoNextval),
            (SEQUENCE_TAKEN, "seq_id := 7 /* nextval */", NoNextval),
            (CLOCK, "EXTRACT(EPOCH FROM clock_timestamp()) * 1000000", NotMilliseconds),
            (CLOCK, "floor(EXTRACT(EPOCH FROM clock_timestamp())) * 1000", NotMilliseconds),
            (CLOCK, "EXTRACT(EPOCH FROM clock_timestamp())::bigint * 1000", NotMilliseconds),
            (
                CLOCK,
                "(EXTRACT(EPOCH FROM clock_timestamp()) - 1314220021.721) * 1000",
                NotMilliseconds,
            ),
            (CLOCK, "EXTRACT(EPOCH FROM clock_timestamp())", NotMilliseconds),
            (CLOCK, "EXTRACT(MILLISECONDS FROM clock_timestamp())", NotTheTime),
            // Local time is not Unix time.
            (CLOCK, "EXTRACT(EPOCH FROM now()::timestamp) * 1000", NotTheTime),
            (CLOCK, "EXTRACT(EPOCH FROM localtimestamp) * 1000", NotTheTime),
            ("BEGIN", "BEGIN IF shard_id > 8191 THEN", Statement("IF".into())),
            ("BEGIN", "BEGIN BEGIN", Statement("BEGIN".into())),
            ("BEGIN", "BEGIN PERFORM setval('s', 1);", Statement("PERFORM".into())),
            ("BEGIN", "BEGIN SELECT 1;", Statement("SELECT that is not INTO one variable".into())),
            (
                "BEGIN",
                "BEGIN SELECT 1, 6 INTO node, shard_id;",
                Statement("SELECT that is not INTO one variable".into()),
            ),
            (
                "BEGIN",
                "BEGIN EXECUTE 'SELECT nextval(''s'')' INTO seq_id;",
                Statement("EXECUTE".into()),
            ),
            ("END;", "RAISE NOTICE $$ $$; result := 5; END;", NotABlock),
            ("END;", "RAISE NOTICE 'it; result := 5; END;", NotABlock),
            ("END;", "result[1] := 5; END;", Statement("RESULT".into())),
            (
                "END;",
                "RETURN result; EXCEPTION WHEN others THEN RETURN -1; END;",
                Statement("EXCEPTION".into()),
            ),
            (
                "END;",
                "RETURN; EXCEPTION WHEN others THEN RETURN -1; END;",
                Statement("EXCEPTION".into()),
            ),
            ("END;", "RETURN result; result := 5; END;", Statement("RESULT".into())),
            ("END;", "RETURN result;", NotABlock),
            ("END;", "result := -result; END;", Unrecognised),
            ("END;", "RETURN result::text; END;", Unrecognised),
            ("END;", "RETURN prefix || encode(int8send(result), 'hex'); END;", Unrecognised),
            (PUBLISHED, "", NoNextval),
            (PUBLISHED, "instagram_next_id", NoNextval),
            (PUBLISHED, "SELECT nextval('s') % 1024", NotABlock),
            (PUBLISHED, "DECLARE x bigint := nextval('s'); BEGIN END", NoResult),
            (PUBLISHED, "BEGIN RETURN nextval('s') % 1024; END", NoTime),
        ];
        for (part, instead, difference) in cases {
            let body = with(part, instead);
            assert_eq!(read(&body), Err(difference), "{body}");
        }
    }

    #[test]
    fn a_variable_of_type_numeric_keeps_a_fraction() {
        let fraction = with("now_millis bigint", "now_millis numeric")
            .replace(CLOCK, "EXTRACT(EPOCH FROM clock_timestamp()) * 1000")
            .replace(TIME_PUT, "(now_millis - our_epoch) * 8388608");
        assert_eq!(read(&fraction), Err(Difference::NotWhole));
        reads_as_published(&fraction.replace("now_millis numeric", "now_millis int8"));
        reads_as_published(
            &fraction.replace("now_millis - our_epoch)", "now_millis - our_epoch)::bigint"),
        );
        reads_as_published(
            &fraction.replace("(now_millis - our_epoch)", "trunc(now_millis - our_epoch)"),
        );
    }

    const SQL: &str =
        "SELECT (((EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint - 1314220021721) << 23)
        | (5 << 10) | (nextval('insta5.table_id_seq') % 1024)";

    #[test]
    fn functions_in_sql() {
        let published = Original {
            epoch_ms: Some(EPOCH_MS),
            shard: Some(5),
            sequence: Some("insta5.table_id_seq".into()),
        };
        for ending in ["", ";", " ; ;-- that's it", " AS id", " as \"The Id\";"] {
            assert_eq!(read_sql(&format!("{SQL}{ending}")), Ok(published.clone()), "{ending}");
        }
        let inner = SQL.strip_prefix("SELECT ").unwrap();
        assert_eq!(read_sql(&format!("select (select {inner})::bigint")), Ok(published));
        use Difference::*;
        let cases = [
            (format!("{SQL} FROM t"), NotASelect),
            (format!("{SQL} AS id FROM t"), NotASelect),
            (format!("{SQL}, 5"), NotASelect),
            (format!("{SQL} WHERE true"), NotASelect),
            (format!("{SQL} UNION ALL {SQL}"), NotASelect),
            (format!("{SQL}; SELECT 5"), NotASelect),
            (format!("SELECT setval('s', 1); {SQL}"), NotASelect),
            (format!("WITH t AS ({SQL}) SELECT * FROM t"), NotASelect),
            (format!("VALUES ({inner})"), NotASelect),
            (format!("SELECT DISTINCT {inner}"), Unrecognised),
            (format!("SELECT (SELECT {inner} FROM t)"), Unrecognised),
            (format!("BEGIN {SQL}; END"), NotASelect),
            (format!("SELECT coalesce({inner}, 5)"), Unrecognised),
            ("SELECT currval('s')".into(), NoNextval),
            ("SELECT nextval('s') % 1024".into(), NoTime),
            (String::new(), NoNextval),
            ("nextval".into(), NotASelect),
        ];
        for (body, difference) in cases {
            assert_eq!(read_sql(&body), Err(difference), "{body}");
        }
        assert_eq!(read(SQL), Err(NotABlock));
    }

    #[test]
    fn says_what_is_different() {
        let said = |part, instead| read(&with(part, instead)).unwrap_err().to_string();
        assert_eq!(said(TIME_PUT, "(now_millis - 5) << 22"), "shifts the time by 22 bits, not 23");
        assert_eq!(
            said(SEQUENCE, "nextval('s') % 4096"),
            "takes the sequence modulo 4096, not 1024"
        );
        assert_eq!(said("BEGIN", "BEGIN LOOP"), "has a statement that the original lacks: LOOP");
    }

    #[test]
    fn mentions_of_a_sequence() {
        let is = |body: &str| mentions(body, "insta5", "Table_Id_Seq");
        for body in [
            PUBLISHED,
            "nextval('\"insta5\" . \"Table_Id_Seq\"')",
            "EXECUTE 'SELECT nextval(''db.INSTA5.table_id_seq'')'",
            "nextval(/* the counter */ 'table_id_seq')",
            "nextval(E'table_id_seq')",
            "nextval(CAST('table_id_seq' AS regclass))",
            "nextval($q$table_id_seq$q$)",
            "nextval(' table_id_seq\t')",
            "nextval($q$insta5.table_id_seq$q$)",
            "DECLARE s regclass := 'table_id_seq'; BEGIN RETURN nextval(s)",
            "EXECUTE 'SELECT nextval(''\"Table_Id_Seq\"'')'",
            "other.table_id_seq; 'table_id_seq'",
        ] {
            assert!(is(body), "{body}");
        }
        for body in [
            "",
            "insta5.table_id_seq1",
            "insta5.a_table_id_seq",
            "insta15.table_id_seq",
            "ainsta5.table_id_seq",
            "other . table_id_seq",
            "CREATE SEQUENCE table_id_seq",
            "SELECT 'a' AS table_id_seq",
            "nextval(current_schema() || '.table_id_seq')",
            "nextval($q$other.table_id_seq$q$)",
        ] {
            assert!(!is(body), "{body}");
        }
        assert!(!mentions("nextval('s')", "insta5", "\"") && mentions("A B.C D", "a b", "c d"));
        assert!(!mentions("$$", "a", "$$") && mentions("a.$$", "a", "$$"));
    }

    #[test]
    fn parts_of_names() {
        let parts = |text: &str| name_parts(text).map(|parts| parts.join("|"));
        assert_eq!(parts("Table_Id_Seq").as_deref(), Some("table_id_seq"));
        assert_eq!(parts(" insta5 . table_id_seq ").as_deref(), Some("insta5|table_id_seq"));
        assert_eq!(parts(r#""My ""Schema"""."S.q""#).as_deref(), Some(r#"My "Schema"|S.q"#));
        for text in
            ["", ".", "a.", ".a", "a..b", "a b", "a-b", "1a", "'a'", "\"a", "$1", "a/**/.$$"]
        {
            assert_eq!(parts(text), None, "{text}");
        }
    }

    #[test]
    fn nesting_has_a_bound() {
        let nested = |depth| {
            with("(seq_id)", &["(".repeat(depth), "seq_id".into(), ")".repeat(depth)].concat())
        };
        reads_as_published(&nested(DEPTH_MAX as usize - 5));
        for open in ["(", "- ", "f(", "1 | ("] {
            let deep = with("(seq_id)", &open.repeat(100_000));
            assert_eq!(read(&deep), Err(Difference::Unrecognised));
        }
        assert_eq!(read(&"/*".repeat(100_000)), Err(Difference::NoNextval));
    }

    /// Tokens of bodies, to combine at random.
    fn piece() -> impl Strategy<Value = &'static str> {
        let pieces = "DECLARE BEGIN END ; ; := = ( ) ( ) , . :: << << | | - % %% & * + : SELECT INTO INTO RETURN
            our_epoch seq_id shard_id result bigint int smallint CONSTANT DEFAULT nextval( nextval('s') 's' '' ' \"
            \"a\" E'\\ E'\\'' $1 $$ $q$ -- /* */ now() clock_timestamp() extract( epoch from floor( cast( as mod(
            1024 1023 1000 8388608 * 23 10 5 1314220021721 9223372036854775807 99999999999999999999 - é numeric(10,2) []";
        prop::sample::select(pieces.split_whitespace().collect::<Vec<_>>())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        #[test]
        fn any_text_is_read_or_refused(body: String) {
            let _ = read(&body);
            let _ = read(&format!("BEGIN x := nextval('s') {body}"));
            let _ = read_sql(&format!("SELECT nextval('s') {body}"));
        }

        #[test]
        fn any_tokens_are_read_or_refused(pieces in prop::collection::vec(piece(), 0..60), spaced: bool) {
            let soup = pieces.join(if spaced { " " } else { "" });
            let _ = read(&format!("DECLARE x {soup} nextval"));
            let _ = read(&format!("BEGIN x := nextval('s') {soup}"));
            let _ = read_sql(&format!("SELECT nextval('s') {soup}"));
        }

        #[test]
        fn every_constant_is_read(epoch_ms: i64, shard: i64, name in "[ -~é]{0,40}") {
            let body = with("1314220021721", &epoch_ms.to_string());
            let body = body.replacen(SHARD, &format!("shard_id bigint := {shard}"), 1);
            let body = body.replacen("insta5.table_id_seq", &name.replace('\'', "''"), 1);
            let plain = |number: i64| (number != i64::MIN).then_some(number);
            reads(&body, plain(epoch_ms), plain(shard), Some(&name));
        }
    }
}
