//! Measurements repeated in turns, so that a busy moment of the machine does not affect only one
//! contestant.

use std::io::Write as _;
use std::time::Instant;

/// The measurements of several contestants, one for each in every round.
pub struct Rounds<C, T = f64> {
    contestants: Vec<C>,
    /// By contestant, then by round.
    measured: Vec<Vec<T>>,
}

impl<C: Copy + PartialEq, T> Rounds<C, T> {
    /// Measures each contestant once a round. Every round begins with another contestant, and every
    /// second one runs backwards.
    pub fn of(
        what: &str,
        rounds: usize,
        contestants: &[C],
        mut measure: impl FnMut(C) -> T,
    ) -> Rounds<C, T> {
        eprint!("    {what} ");
        let started = Instant::now();
        let mut measured: Vec<Vec<T>> = contestants.iter().map(|_| vec![]).collect();
        for round in 0..rounds {
            for turn in 0..contestants.len() {
                let turn = if round % 2 == 0 { turn } else { contestants.len() - turn };
                let contestant = (round + turn) % contestants.len();
                measured[contestant].push(measure(contestants[contestant]));
            }
            eprint!(".");
            std::io::stderr().flush().unwrap();
        }
        eprintln!(" {:.0} s", started.elapsed().as_secs_f64());
        Rounds { contestants: contestants.to_vec(), measured }
    }

    pub fn contestants(&self) -> impl Iterator<Item = C> {
        self.contestants.iter().copied()
    }

    /// The measurements of one contestant, by round.
    pub fn of_one(&self, contestant: C) -> &[T] {
        let index = self.contestants.iter().position(|is| *is == contestant);
        &self.measured[index.expect("a contestant of these rounds")]
    }

    /// One of several figures that were measured together.
    pub fn each(&self, figure: impl Fn(&T) -> f64) -> Rounds<C> {
        let measured =
            self.measured.iter().map(|rounds| rounds.iter().map(&figure).collect()).collect();
        Rounds { contestants: self.contestants.clone(), measured }
    }
}

impl<C: Copy + PartialEq> Rounds<C> {
    /// The measurements of some contestants, under other names.
    pub fn only<D>(&self, these: impl IntoIterator<Item = C>, names: Vec<D>) -> Rounds<D> {
        let measured = these.into_iter().map(|one| self.of_one(one).to_vec()).collect();
        Rounds { contestants: names, measured }
    }

    pub fn median(&self, contestant: C) -> f64 {
        self.spread(contestant).median
    }

    pub fn spread(&self, contestant: C) -> Spread {
        Spread::of(self.of_one(contestant).to_vec())
    }

    /// The ratio of each to `rival` in the same round.
    pub fn relative_to(&self, rival: C) -> Rounds<C> {
        let by = self.of_one(rival);
        let of = |values: &Vec<f64>| values.iter().zip(by).map(|(of, by)| of / by).collect();
        let measured = self.measured.iter().map(of).collect();
        Rounds { contestants: self.contestants.clone(), measured }
    }

    /// The ratio of `contestant` to `rival` in the same round.
    pub fn ratio(&self, contestant: C, rival: C) -> Spread {
        self.relative_to(rival).spread(contestant)
    }
}

/// The median of the rounds, and their range.
#[derive(Clone)]
pub struct Spread {
    pub median: f64,
    pub lowest: f64,
    pub highest: f64,
}

impl Spread {
    fn of(values: Vec<f64>) -> Spread {
        Spread {
            lowest: values.iter().copied().fold(f64::INFINITY, f64::min),
            highest: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            median: median(values),
        }
    }
}

/// A figure that was measured once.
impl From<f64> for Spread {
    fn from(value: f64) -> Spread {
        Spread::of(vec![value])
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{:.2} ({:.2} to {:.2})", self.median, self.lowest, self.highest)
    }
}

/// The median: the middle value, or the mean of the two middle values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let (below, above) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
    (below + above) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_has_a_turn_in_every_round() {
        let mut turns = vec![];
        let rounds = Rounds::of("turns", 3, &['a', 'b'], |contestant| {
            turns.push(contestant);
            if contestant == 'a' { turns.len() as f64 } else { 10.0 }
        });
        assert_eq!(turns, ['a', 'b', 'b', 'a', 'a', 'b']);
        assert_eq!(rounds.of_one('a'), [1.0, 4.0, 5.0]);
        assert_eq!((rounds.median('a'), rounds.median('b')), (4.0, 10.0));
        assert_eq!(rounds.ratio('b', 'a').to_string(), "2.50 (2.00 to 10.00)");
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), 3.0);
    }
}
