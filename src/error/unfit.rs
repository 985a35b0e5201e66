//! The faults in the options of a sequence.

/// The options of a sequence that prevent it from following the clock.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Unfit {
    pub not_bigint: bool,
    /// Its INCREMENT, if that is not 1.
    pub increment: Option<i64>,
    /// Its MAXVALUE, if that is too small.
    pub max: Option<i64>,
    /// Its MINVALUE, if that is ahead of the clock.
    pub min: Option<i64>,
    pub cycle: bool,
}

impl Unfit {
    /// Each fault with the ALTER SEQUENCE clause that removes it.
    fn faults(&self) -> Vec<(String, &'static str)> {
        let mut faults = vec![];
        if self.not_bigint {
            faults.push(("its type is not bigint".into(), "AS bigint"));
        }
        if let Some(increment) = self.increment {
            faults.push((format!("its increment is {increment}"), "INCREMENT 1"));
        }
        if let Some(max) = self.max {
            faults.push((format!("its maximum value {max} is less than 2^50 - 1"), "NO MAXVALUE"));
        }
        if let Some(min) = self.min {
            faults.push((format!("its minimum value {min} is ahead of the clock"), "NO MINVALUE"));
        }
        if self.cycle {
            faults.push(("it cycles".into(), "NO CYCLE"));
        }
        faults
    }

    /// The faults in a few words each, separated by "; ".
    pub fn reasons(&self) -> String {
        self.faults().into_iter().map(|(reason, _)| reason).collect::<Vec<_>>().join("; ")
    }

    /// The faults as a sentence each.
    pub fn sentences(&self) -> String {
        let sentence =
            |(reason, _): (String, _)| format!("{}{}.", reason[..1].to_uppercase(), &reason[1..]);
        self.faults().into_iter().map(sentence).collect::<Vec<_>>().join(" ")
    }

    pub fn clauses(&self) -> String {
        self.faults().into_iter().map(|(_, clause)| format!(" {clause}")).collect()
    }
}
