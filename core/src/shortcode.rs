//! Short codes: an id in base 64, as in links.
//!
//! The id is read as an unsigned number and written most significant digit first, without leading
//! zeros (`A`s), in eleven characters at most. Codes do not sort in the order of their ids.
//!
//! Pure arithmetic, independent of PostgreSQL.

/// The digits 0 to 63, in the URL-safe alphabet of base64 (RFC 4648, section 5).
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BITS: u32 = DIGITS.len().ilog2();

/// Why a text is not a short code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    Empty,
    /// A character that is not a digit.
    NoDigit(char),
    /// The number has more than 64 bits.
    Overflow,
}

/// The short code of an id. For 0 it is one digit, `A`.
pub fn encode(id: i64) -> String {
    let digits = (u64::BITS - (id as u64).leading_zeros()).div_ceil(BITS).max(1);
    let digit = |place| DIGITS[(id as u64 >> (place * BITS)) as usize % DIGITS.len()];
    (0..digits).rev().map(|place| char::from(digit(place))).collect()
}

/// The id of a short code. Leading `A`s add nothing.
pub fn decode(code: &str) -> Result<i64, Malformed> {
    if code.is_empty() {
        return Err(Malformed::Empty);
    }
    let mut id: u64 = 0;
    let mut overflows = false;
    for char in code.chars() {
        let digit = DIGITS.iter().position(|&digit| char::from(digit) == char);
        let digit = digit.ok_or(Malformed::NoDigit(char))? as u64;
        overflows |= id.leading_zeros() < BITS;
        id = id << BITS | digit;
    }
    if overflows { Err(Malformed::Overflow) } else { Ok(id as i64) }
}
