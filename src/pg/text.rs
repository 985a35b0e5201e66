//! Texts and lists of any length. A failed allocation in Rust ends the server process, and with it
//! all sessions. So the length of a text is checked before it is copied, and an allocation for a
//! list may fail.

use crate::error::{Error, or_raise, shown};
use pgrx::callconv::{Arg, ArgAbi};
use pgrx::impl_sql_translatable;
use pgrx::pg_sys::{self, Datum, Oid};
use pgrx::varlena::varlena_to_byte_slice;
use pgrx::{FromDatum, IntoDatum};

/// A name is shorter than this, in bytes.
pub const NAME_LIMIT: usize = pg_sys::NAMEDATALEN as usize;

/// The longest text that is read from the catalogs or from another node.
pub const TEXT_MAX: usize = 1 << 20;

/// An argument that is a name or a keyword. Of a longer text only the beginning is read, also if it
/// is compressed or stored out of line.
pub struct Word {
    beginning: String,
    is_whole: bool,
}

impl Word {
    /// The text, unless it is longer than a name can be.
    pub fn whole(&self) -> Option<&str> {
        self.is_whole.then_some(&self.beginning)
    }

    /// The text for a message.
    pub fn shown(&self) -> String {
        format!("{}{}", shown(&self.beginning, NAME_LIMIT), if self.is_whole { "" } else { "..." })
    }

    /// A name, unquoted.
    pub fn into_name(self) -> Result<String, Error> {
        if self.is_whole { Ok(self.beginning) } else { Err(Error::NameTooLong(self.shown())) }
    }
}

impl_sql_translatable!(Word, "text");

impl FromDatum for Word {
    unsafe fn from_polymorphic_datum(datum: Datum, is_null: bool, _type: Oid) -> Option<Word> {
        if is_null {
            return None;
        }
        // SAFETY: the caller passes a text. PostgreSQL returns a copy of the beginning, which lives
        // as long as the call.
        let (len, beginning) = unsafe {
            let len = pg_sys::toast_raw_datum_size(datum) - size_of::<u32>();
            let beginning =
                pg_sys::pg_detoast_datum_slice(datum.cast_mut_ptr(), 0, NAME_LIMIT as i32 - 1);
            (len, varlena_to_byte_slice(beginning))
        };
        let is_whole = len < NAME_LIMIT;
        let valid = match str::from_utf8(beginning) {
            // The text is cut off within a character.
            Err(error) if !is_whole && error.error_len().is_none() => {
                &beginning[..error.valid_up_to()]
            }
            _ => beginning,
        };
        Some(Word { beginning: utf8(valid).to_owned(), is_whole })
    }
}

impl IntoDatum for Word {
    fn into_datum(self) -> Option<Datum> {
        self.beginning.into_datum()
    }

    fn type_oid() -> Oid {
        pg_sys::TEXTOID
    }
}

// SAFETY: the datum is a text, as the SQL type says.
unsafe impl<'fcx> ArgAbi<'fcx> for Word {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: promised by the caller. For an argument that can be NULL, pgrx uses Option<Word>.
        unsafe { arg.unbox_arg_using_from_datum() }
            .unwrap_or_else(|| unreachable!("it is not NULL"))
    }
}

/// A text from the server. In a database with another encoding than UTF-8 it may not be valid
/// UTF-8. That is an error, because a converted name could be the name of another object.
pub fn utf8(text: &[u8]) -> &str {
    or_raise(|| str::from_utf8(text).map_err(|_| Error::NotUtf8(shown_bytes(text))))
}

/// A text for a message, with "?" for what is not UTF-8: other encodings have no U+FFFD.
pub fn shown_bytes(text: &[u8]) -> String {
    String::from_utf8_lossy(text).replace(char::REPLACEMENT_CHARACTER, "?")
}

/// Raises an error for a text that is too long to be copied.
pub fn check_length(len: usize) {
    or_raise(|| if len <= TEXT_MAX { Ok(()) } else { Err(Error::TextTooLong(len)) });
}

/// Appends to a list whose length is the number of some objects in the database.
pub fn push<T>(list: &mut Vec<T>, item: T) {
    or_raise(|| list.try_reserve(1).map_err(|_| Error::OutOfMemory));
    list.push(item);
}
