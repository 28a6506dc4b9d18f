//! Hints for names that were mistyped.

/// Comparing takes time with the square of the length.
const NAME_LEN_MAX: usize = 48;

/// The candidate that `name` was probably meant to be, as the end of a sentence:
/// "; did you mean `needs`?", or nothing.
pub fn hint<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    if name.len() > NAME_LEN_MAX {
        return String::new();
    }
    let allowed = (name.chars().count() / 3).clamp(1, 3);
    let near = candidates
        .into_iter()
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= allowed)
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min();
    near.map_or_else(String::new, |(_, candidate)| format!("; did you mean `{candidate}`?"))
}

/// How many letters must be put in, left out, replaced or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) =
        (one.to_lowercase().chars().collect(), other.to_lowercase().chars().collect());
    let mut older = vec![0; other.len() + 1];
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=other.len() {
            let replaced = above[j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut least = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            let swapped =
                i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1];
            if swapped {
                least = least.min(older[j - 2] + 1);
            }
            row.push(least);
        }
        older = std::mem::replace(&mut above, row);
    }
    above[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_hinted_and_far_ones_are_not() {
        let names = ["needs", "timeout", "title"];
        assert_eq!(hint("nedes", names), "; did you mean `needs`?");
        assert_eq!(hint("time_out", names), "; did you mean `timeout`?");
        assert_eq!(hint("Title", names), "; did you mean `title`?");
        assert_eq!(hint("command", names), "");
        assert_eq!(hint("", names), "");
    }
}
