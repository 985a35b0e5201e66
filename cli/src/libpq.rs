//! Connections to PostgreSQL by libpq. All unsafe code of the command is in this file.

use crate::interrupt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::time::{Duration, Instant};

/// Interval at which a running statement checks for an interrupt.
pub const TICK: Duration = Duration::from_millis(100);

/// A failed statement, or a failed connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Empty if the server did not report the error.
    pub sqlstate: String,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
}

impl Error {
    pub fn local(message: impl Into<String>) -> Error {
        Error { sqlstate: String::new(), message: message.into(), detail: None, hint: None }
    }
}

/// A keyword of a connection string and its value.
pub type Parameter = (String, String);

/// Parses a connection string, either a URI or keywords and values, into the parameters that it
/// sets.
pub fn parse_conninfo(conninfo: &str) -> Result<Vec<Parameter>, Error> {
    let conninfo = c_string(conninfo)?;
    let mut message: *mut c_char = ptr::null_mut();
    // SAFETY: the string ends with a zero byte, and `message` is written to only during the call.
    let options = unsafe { pq_sys::PQconninfoParse(conninfo.as_ptr(), &mut message) };
    if options.is_null() {
        // SAFETY: on failure libpq sets `message` to a string that it allocates for the caller, or
        // leaves it null (out of memory).
        let text = unsafe { text_at(message) }.unwrap_or_else(|| "out of memory".into());
        // SAFETY: PQfreemem accepts memory that libpq has allocated, and null.
        unsafe { pq_sys::PQfreemem(message.cast()) };
        return Err(Error::local(one_line(&text)));
    }
    let mut parameters = Vec::new();
    let mut option = options;
    // SAFETY: the array ends with an entry whose keyword is null. Its strings are valid until
    // PQconninfoFree.
    unsafe {
        while let Some(keyword) = text_at((*option).keyword) {
            if let Some(value) = text_at((*option).val) {
                parameters.push((keyword, value));
            }
            option = option.add(1);
        }
        pq_sys::PQconninfoFree(options);
    }
    Ok(parameters)
}

/// Formats parameters as keywords and values: the inverse of [`parse_conninfo`].
pub fn format_conninfo(parameters: &[Parameter]) -> String {
    let quoted = |value: &str| value.replace('\\', "\\\\").replace('\'', "\\'");
    let parameters =
        parameters.iter().map(|(keyword, value)| format!("{keyword}='{}'", quoted(value)));
    parameters.collect::<Vec<_>>().join(" ")
}

/// A session on a server.
#[derive(Debug)]
pub struct Connection {
    conn: NonNull<pq_sys::PGconn>,
    until: Cell<Option<Instant>>,
}

impl Connection {
    /// Connects with these parameters. Later ones override earlier ones. `dbname` may be a
    /// connection string.
    pub fn open(parameters: &[(&str, &str)]) -> Result<Connection, Error> {
        let strings = parameters
            .iter()
            .map(|(keyword, value)| Ok((c_string(keyword)?, c_string(value)?)))
            .collect::<Result<Vec<_>, Error>>()?;
        let array = |select: fn(&(CString, CString)) -> *const c_char| -> Vec<*const c_char> {
            strings.iter().map(select).chain([ptr::null()]).collect()
        };
        let (keywords, values) = (array(|pair| pair.0.as_ptr()), array(|pair| pair.1.as_ptr()));
        // SAFETY: both arrays end with null, and live, as their strings do, until the call returns.
        let conn = unsafe { pq_sys::PQconnectdbParams(keywords.as_ptr(), values.as_ptr(), 1) };
        let found = NonNull::new(conn).ok_or_else(|| Error::local("out of memory"))?;
        let connection = Connection { conn: found, until: Cell::new(None) };
        if connection.is_alive() {
            // SAFETY: the connection is open. Notices go to a function that ignores its arguments.
            unsafe { pq_sys::PQsetNoticeProcessor(conn, Some(ignore_notice), ptr::null_mut()) };
            Ok(connection)
        } else {
            Err(connection.error())
        }
    }

    /// Whether the connection was usable when it was last used.
    pub fn is_alive(&self) -> bool {
        // SAFETY: the connection is open until it is dropped.
        unsafe { pq_sys::PQstatus(self.conn.as_ptr()) == pq_sys::ConnStatusType::CONNECTION_OK }
    }

    /// Whether a transaction is open, which may have failed.
    pub fn is_in_transaction(&self) -> bool {
        // SAFETY: the connection is open until it is dropped.
        let status = unsafe { pq_sys::PQtransactionStatus(self.conn.as_ptr()) };
        status != pq_sys::PGTransactionStatusType::PQTRANS_IDLE
    }

    /// Until when this waits for an answer: a server that hangs ends no statement at its timeout.
    /// After that, every statement fails at once.
    pub fn wait_until(&self, until: Option<Instant>) {
        self.until.set(until);
    }

    /// Runs statements without parameters, in one transaction unless they contain transaction
    /// commands. Returns the rows of the last statement.
    pub fn run(&self, statements: &str) -> Result<Rows, Error> {
        self.run_watched(statements, TICK, &mut || {})
    }

    /// The same, but calls `waiting` each time that the statements run and the server sends nothing
    /// for `tick`.
    pub fn run_watched(
        &self,
        statements: &str,
        tick: Duration,
        waiting: &mut dyn FnMut(),
    ) -> Result<Rows, Error> {
        let statements = c_string(statements)?;
        self.check_time()?;
        // SAFETY: the connection is open, and the string ends with a zero byte.
        let is_sent = unsafe { pq_sys::PQsendQuery(self.conn.as_ptr(), statements.as_ptr()) };
        self.finish(is_sent, tick, waiting)
    }

    /// The process of the server.
    pub fn pid(&self) -> i32 {
        // SAFETY: the connection is open.
        unsafe { pq_sys::PQbackendPID(self.conn.as_ptr()) }
    }

    /// Runs a statement with parameters, which are sent separately as text.
    pub fn query(&self, statement: &str, parameters: &[&str]) -> Result<Rows, Error> {
        let statement = c_string(statement)?;
        let parameters =
            parameters.iter().map(|value| c_string(value)).collect::<Result<Vec<_>, _>>()?;
        let values: Vec<_> = parameters.iter().map(|value| value.as_ptr()).collect();
        self.check_time()?;
        // SAFETY: the connection is open, and there are as many values as announced, each ended by
        // a zero byte. Null for types, lengths and formats means that the server infers the types,
        // and that all values are text.
        let is_sent = unsafe {
            pq_sys::PQsendQueryParams(
                self.conn.as_ptr(),
                statement.as_ptr(),
                values.len() as c_int,
                ptr::null(),
                values.as_ptr(),
                ptr::null(),
                ptr::null(),
                0,
            )
        };
        self.finish(is_sent, TICK, &mut || {})
    }

    /// The rows of a query, whose columns have the names of the fields.
    pub fn select<T: DeserializeOwned>(
        &self,
        query: &str,
        parameters: &[&str],
    ) -> Result<Vec<T>, Error> {
        let query = format!("SELECT to_jsonb(r) FROM ({query}\n) AS r");
        let rows = self.query(&query, parameters)?.column::<String>()?;
        let parse = |row: &String| {
            serde_json::from_str(row)
                .map_err(|error| Error::local(format!("unexpected row {row}: {error}")))
        };
        rows.iter().map(parse).collect()
    }

    /// The only row of such a query.
    pub fn select_one<T: DeserializeOwned>(
        &self,
        query: &str,
        parameters: &[&str],
    ) -> Result<T, Error> {
        self.select(query, parameters)?.pop().ok_or_else(|| Error::local("no row"))
    }

    /// Waits until the statements have ended. Returns the first error, or else the last result.
    fn finish(
        &self,
        is_sent: c_int,
        tick: Duration,
        waiting: &mut dyn FnMut(),
    ) -> Result<Rows, Error> {
        if is_sent != 1 {
            return Err(self.error());
        }
        let mut outcome = Ok(None);
        while let Some(result) = self.next_result(tick, waiting)? {
            let is_copy = result.is_copy();
            let result = self.checked(result);
            if is_copy {
                // libpq would return such results for ever.
                return result;
            }
            if outcome.is_ok() {
                outcome = result.map(Some);
            }
        }
        outcome?.ok_or_else(|| self.error())
    }

    fn next_result(
        &self,
        tick: Duration,
        waiting: &mut dyn FnMut(),
    ) -> Result<Option<Rows>, Error> {
        let tick = Timespec { tv_sec: 0, tv_nsec: tick.subsec_nanos().into() };
        let conn = self.conn.as_ptr();
        let mut is_canceled = false;
        // SAFETY: the connection is open. Its socket stays open during the borrow, since only these
        // calls can close it, and they do so only when they return an error.
        unsafe {
            // poll does not see the data that TLS has buffered.
            while pq_sys::PQconsumeInput(conn) == 1 && pq_sys::PQisBusy(conn) == 1 {
                let socket = pq_sys::PQsocket(conn);
                if socket < 0 {
                    return Err(self.error());
                }
                let socket = BorrowedFd::borrow_raw(socket);
                // An error does not matter: the code below checks for a signal and for input.
                let ready = poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&tick));
                self.check_time()?;
                if ready == Ok(0) {
                    waiting();
                }
                if interrupt::is_requested() && !is_canceled {
                    self.cancel();
                    is_canceled = true;
                }
            }
            if pq_sys::PQisBusy(conn) == 1 {
                return Err(self.error());
            }
            Ok(NonNull::new(pq_sys::PQgetResult(conn)).map(|result| Rows { result }))
        }
    }

    /// Fails after the time of [`Connection::wait_until`], as if the server had ended the
    /// statement.
    fn check_time(&self) -> Result<(), Error> {
        if self.until.get().is_some_and(|until| Instant::now() > until) {
            let late = Error::local("the server does not answer");
            return Err(Error { sqlstate: "57014".into(), ..late });
        }
        Ok(())
    }

    /// Asks the server to cancel the current statement. Has no effect if the statement has already
    /// ended.
    fn cancel(&self) {
        let mut message = [0; 256];
        // SAFETY: the connection is open; the buffer has the length that is passed; the object is
        // freed once.
        unsafe {
            let cancel = pq_sys::PQgetCancel(self.conn.as_ptr());
            if !cancel.is_null() {
                pq_sys::PQcancel(cancel, message.as_mut_ptr(), message.len() as c_int);
                pq_sys::PQfreeCancel(cancel);
            }
        }
    }

    fn checked(&self, rows: Rows) -> Result<Rows, Error> {
        use pq_sys::ExecStatusType::*;
        let result = rows.result.as_ptr();
        // SAFETY: the result lives as long as `rows`.
        match unsafe { pq_sys::PQresultStatus(result) } {
            PGRES_COMMAND_OK | PGRES_TUPLES_OK | PGRES_EMPTY_QUERY => Ok(rows),
            _ => {
                // SAFETY: as above. The codes of fields are characters.
                let field = |code: u8| unsafe {
                    text_at(pq_sys::PQresultErrorField(result, code as c_int))
                };
                match field(b'M') {
                    Some(message) => Err(Error {
                        sqlstate: field(b'C').unwrap_or_default(),
                        message,
                        detail: field(b'D'),
                        hint: field(b'H'),
                    }),
                    None => Err(self.error()),
                }
            }
        }
    }

    /// The connection's last error.
    fn error(&self) -> Error {
        // SAFETY: the connection is open, and its message valid until it is used again.
        let text =
            unsafe { text_at(pq_sys::PQerrorMessage(self.conn.as_ptr())) }.unwrap_or_default();
        Error::local(if text.trim().is_empty() {
            "the connection is lost".into()
        } else {
            one_line(&text)
        })
    }

    /// Waits for the given time, or until the user interrupts the command.
    pub fn pause(time: Duration) {
        let mut left = time;
        while !left.is_zero() && !interrupt::is_requested() {
            let part = left.min(Duration::from_millis(50));
            std::thread::sleep(part);
            left -= part;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: nothing uses the connection after this.
        unsafe { pq_sys::PQfinish(self.conn.as_ptr()) }
    }
}

/// The rows of a statement.
#[derive(Debug)]
pub struct Rows {
    result: NonNull<pq_sys::PGresult>,
}

impl Rows {
    pub fn len(&self) -> usize {
        // SAFETY: the result lives as long as `self`.
        unsafe { pq_sys::PQntuples(self.result.as_ptr()) as usize }
    }

    /// Whether the server expects or sends data of COPY, which no statement of the command uses.
    fn is_copy(&self) -> bool {
        use pq_sys::ExecStatusType::*;
        // SAFETY: the result lives as long as `self`.
        let status = unsafe { pq_sys::PQresultStatus(self.result.as_ptr()) };
        matches!(status, PGRES_COPY_IN | PGRES_COPY_OUT | PGRES_COPY_BOTH)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a value. Fails if it is missing or of another type.
    pub fn get<T: FromText>(&self, row: usize, column: usize) -> Result<T, Error> {
        let text = self.text(row, column)?;
        T::from_text(text.as_deref())
            .ok_or_else(|| Error::local(format!("unexpected value in column {column}: {text:?}")))
    }

    /// The only value of the only row.
    pub fn one<T: FromText>(&self) -> Result<T, Error> {
        self.get(0, 0)
    }

    /// The first column.
    pub fn column<T: FromText>(&self) -> Result<Vec<T>, Error> {
        (0..self.len()).map(|row| self.get(row, 0)).collect()
    }

    fn text(&self, row: usize, column: usize) -> Result<Option<String>, Error> {
        let result = self.result.as_ptr();
        // SAFETY: the result lives as long as `self`.
        let columns = unsafe { pq_sys::PQnfields(result) } as usize;
        if row >= self.len() || column >= columns {
            return Err(Error::local(format!("no row {row}, column {column}")));
        }
        let (row, column) = (row as c_int, column as c_int);
        // SAFETY: as above, and the position exists, so libpq returns a string.
        unsafe {
            if pq_sys::PQgetisnull(result, row, column) == 1 {
                Ok(None)
            } else {
                Ok(text_at(pq_sys::PQgetvalue(result, row, column)))
            }
        }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        // SAFETY: nothing uses the result after this.
        unsafe { pq_sys::PQclear(self.result.as_ptr()) }
    }
}

/// A type that can be read from the text of a value.
pub trait FromText: Sized {
    fn from_text(text: Option<&str>) -> Option<Self>;
}

impl FromText for String {
    fn from_text(text: Option<&str>) -> Option<String> {
        text.map(str::to_owned)
    }
}

impl FromText for bool {
    fn from_text(text: Option<&str>) -> Option<bool> {
        match text? {
            "t" => Some(true),
            "f" => Some(false),
            _ => None,
        }
    }
}

impl<T: FromText> FromText for Option<T> {
    fn from_text(text: Option<&str>) -> Option<Option<T>> {
        match text {
            None => Some(None),
            text => T::from_text(text).map(Some),
        }
    }
}

/// The lines of a message of a client library or program as one line.
pub fn one_line(message: &str) -> String {
    message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

fn c_string(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::local(format!("a zero byte in {text:?}")))
}

/// Copies a string.
///
/// # Safety
/// `text` is null, or points to a string that ends with a zero byte.
unsafe fn text_at(text: *const c_char) -> Option<String> {
    // SAFETY: guaranteed by the caller.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

extern "C" fn ignore_notice(_: *mut std::ffi::c_void, _: *const c_char) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_several_lines_become_one() {
        assert_eq!(
            one_line("Connection refused\n\tIs it running?\n"),
            "Connection refused; Is it running?"
        );
    }

    #[test]
    fn conninfo_survives_parsing_and_formatting() {
        let parameters =
            parse_conninfo("host=/tmp dbname='it''s' password='a\\\\b\\'c d'").unwrap_err();
        assert_eq!(parameters.sqlstate, "");
        let parameters = parse_conninfo("host=/tmp password='a\\\\b\\'c d' user=x").unwrap();
        let value =
            |name: &str| parameters.iter().find(|(keyword, _)| keyword == name).unwrap().1.clone();
        assert_eq!(value("password"), "a\\b'c d");
        assert_eq!(parse_conninfo(&format_conninfo(&parameters)).unwrap(), parameters);
        let uri = parse_conninfo("postgresql://me:s%20t@h:5/db?sslmode=require").unwrap();
        assert!(
            uri.contains(&("password".into(), "s t".into()))
                && uri.contains(&("sslmode".into(), "require".into()))
        );
    }
}
