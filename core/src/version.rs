//! Versions of the extension, as `extversion` has them: `1.0.0`, or `1.0.0-portable` of the portable
//! edition.

/// The numbers of a version, which compare as the versions do. The edition does not count.
pub fn numbers(version: &str) -> Vec<u32> {
    let (numbers, _) = version.split_once('-').unwrap_or((version, ""));
    numbers.split('.').map_while(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_their_numbers() {
        assert!(numbers("0.10.0") > numbers("0.9.0"));
        assert!(numbers("1.0.1-portable") > numbers("1.0.0"));
        assert!(numbers("2.0") > numbers("1.9.9"));
        assert!(numbers("1.0.0.1") > numbers("1.0.0"));
        assert_eq!(numbers("1.0.1-portable"), numbers("1.0.1"));
        assert!(numbers("") < numbers("0.1.0") && numbers("unknown").is_empty());
    }
}
