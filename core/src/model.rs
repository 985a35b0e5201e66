//! A model of a server whose sessions share one sequence, with assertions that must hold after any
//! history of events. Used by the property tests of [`hlc`](crate::hlc) and by the fuzzer in
//! `fuzz/`.

use crate::epoch::US_PER_MS;
use crate::hlc::{Next, Seen, State, VALUE_MAX, Wait, durability, visit};

/// One event in a server whose sessions share a sequence.
#[derive(Clone, Debug)]
pub enum Event {
    /// This session arrives and reads the clock. It may ask much later.
    Come { session: usize },
    /// This session asks for this many values. If the answer is a wait, it starts to wait.
    Ask { session: usize, want: i64 },
    /// The clock ticks: this many real milliseconds pass.
    Pass { ms: i64 },
    /// The clock is set by this much.
    Jump { ms: i64 },
    /// The server crashes, and the sequence resumes at the value in WAL.
    Crash,
    /// A checkpoint: the next step needs a WAL record again.
    Checkpoint,
    /// Plain nextval on the same sequence.
    Nextval,
}

pub const SESSIONS: usize = 4;

/// How many values core's nextval logs ahead.
const SEQ_LOG_VALS: i64 = 32;

/// The server: the page, the state in WAL, the clock, and the sessions that wait for a tick.
pub struct Server {
    pub page: State,
    log_cnt: i64,
    in_wal: State,
    must_record: bool,
    real_ms: i64,
    clock_offset: i64,
    /// For each session, the clock at its arrival; `None` if it arrives only when it asks.
    came_ms: [Option<i64>; SESSIONS],
    /// For each session, its wait and the real millisecond at which that ends.
    waiting: [Option<(Wait, i64)>; SESSIONS],
    last_issued: Option<i64>,
    pub count_issued: i64,
    /// The last answer that was neither a value nor a wait.
    pub refused: Option<Next>,
}

pub fn called(last_value: i64) -> State {
    State { last_value, is_called: true }
}

impl Server {
    pub fn new(page: State, real_ms: i64) -> Server {
        Server {
            page,
            log_cnt: 0,
            in_wal: page,
            must_record: true,
            real_ms,
            clock_offset: 0,
            came_ms: [None; SESSIONS],
            waiting: [None; SESSIONS],
            last_issued: None,
            count_issued: 0,
            refused: None,
        }
    }

    pub fn clock(&self) -> i64 {
        const MS_MAX: i64 = i64::MAX / US_PER_MS;
        self.real_ms.saturating_add(self.clock_offset).clamp(-MS_MAX, MS_MAX)
    }

    /// Applies an event and checks the result: values are in range, grow and never repeat, and a
    /// crash would not repeat any.
    pub fn handle(&mut self, event: Event) {
        let before = self.page;
        match event {
            Event::Come { session } => {
                if self.wakes(session) {
                    self.came_ms[session] = Some(self.clock());
                }
            }
            Event::Ask { session, want } => self.ask(session, want),
            Event::Pass { ms } => self.real_ms = self.real_ms.saturating_add(ms),
            Event::Jump { ms } => self.clock_offset = self.clock_offset.saturating_add(ms),
            Event::Checkpoint => self.must_record = true,
            Event::Crash => {
                self.page = self.in_wal;
                self.log_cnt = 0;
                self.must_record = true;
                self.waiting = [None; SESSIONS];
                self.came_ms = [None; SESSIONS];
            }
            Event::Nextval => self.nextval(),
        }
        self.check(before);
    }

    /// Whether a session is not waiting.
    fn wakes(&self, session: usize) -> bool {
        self.waiting[session].is_none_or(|(_, until)| until <= self.real_ms)
    }

    pub fn ask(&mut self, session: usize, want: i64) {
        if !self.wakes(session) {
            return;
        }
        let waited_on = self.waiting[session].map(|(wait, _)| wait);
        let came = self.came_ms[session].take().unwrap_or_else(|| self.clock());
        let seen = Seen { state: self.page, lsn: 0 };
        let read_clock = || self.clock() * US_PER_MS;
        let (said, clock_us) = visit(seen, came * US_PER_MS, read_clock, want, 0, waited_on);
        let clock = clock_us / US_PER_MS;
        match said {
            Next::Take(run) => {
                self.waiting[session] = None;
                assert!(1 <= run.len && run.len <= want, "{run:?} of {want}");
                assert!(self.last_issued < Some(run.first), "{run:?} after {:?}", self.last_issued);
                assert!(0 <= run.first && run.last() <= VALUE_MAX, "{run:?} is out of range");
                self.last_issued = Some(run.last());
                self.count_issued += run.len;
                self.step_to(run.last(), clock);
            }
            Next::Wait { ticks } => {
                // Always 0, because a wait must be computed from the current clock. A wait computed
                // from an earlier clock would end too early.
                let passed = self.clock().saturating_sub(clock);
                let until = self.real_ms.saturating_add(ticks).saturating_sub(passed);
                self.waiting[session] = Some((Wait { seen, clock_us, ticks }, until));
            }
            refused => self.refused = Some(refused),
        }
    }

    fn step_to(&mut self, new_value: i64, now_ms: i64) {
        let plan =
            durability(self.page.last_value, self.log_cnt, new_value, now_ms, self.must_record);
        if let Some(record) = plan.record {
            self.in_wal = called(record);
            self.must_record = false;
        }
        self.page = called(new_value);
        self.log_cnt = plan.log_cnt;
    }

    /// Core's nextval: plus one, logging ahead when log_cnt is used up.
    fn nextval(&mut self) {
        let Some(value) = self.page.last_value.checked_add(self.page.is_called as i64) else {
            return;
        };
        if self.log_cnt < 1 || self.must_record || !self.page.is_called {
            self.log_cnt = SEQ_LOG_VALS.min(i64::MAX.saturating_sub(value));
            self.in_wal = called(value + self.log_cnt);
            self.must_record = false;
        } else {
            self.log_cnt -= 1;
        }
        self.page = called(value);
    }

    fn check(&self, before: State) {
        if before.is_called {
            assert!(
                self.page.is_called && before.last_value <= self.page.last_value,
                "{before:?} is lost"
            );
        }
        let wal_covers_page = self.in_wal.last_value >= self.page.last_value;
        assert!(wal_covers_page, "{:?} in WAL, {:?} on the page", self.in_wal, self.page);
        assert!(self.log_cnt >= 0, "log_cnt is {}", self.log_cnt);
        if self.page.is_called && !self.must_record {
            assert_eq!(self.page.last_value + self.log_cnt, self.in_wal.last_value, "log_cnt");
        }
    }
}
