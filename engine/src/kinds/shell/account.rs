//! The account that a script runs as.

use std::path::PathBuf;

use rustix::process::geteuid;

/// A user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) name: String,
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) home: PathBuf,
}

/// Finds a user by name or number. Fails with a sentence.
pub(super) fn find(wanted: &str) -> Result<Account, String> {
    if !geteuid().is_root() {
        return Err(format!(
            "running as user {wanted:?} needs an engine that runs as root; this one does not"
        ));
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let number = wanted.parse::<u32>().ok();
    let mut accounts = users.lines().filter_map(account);
    let found = accounts.find(|one| one.name == wanted || Some(one.user) == number);
    let nameless = || {
        let user = number?;
        Some(Account { name: wanted.to_owned(), user, group: user, home: PathBuf::from("/") })
    };
    found.or_else(nameless).ok_or_else(|| format!("there is no user {wanted:?} in /etc/passwd"))
}

fn account(line: &str) -> Option<Account> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, user, group, _, home, ..] = fields.as_slice() else { return None };
    Some(Account {
        name: (*name).to_owned(),
        user: user.parse().ok()?,
        group: group.parse().ok()?,
        home: PathBuf::from(home),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_line_of_the_user_file_is_read() {
        let account = super::account("www-data:x:33:34:www-data:/var/www:/usr/sbin/nologin");
        let account = account.unwrap();
        assert_eq!((account.name.as_str(), account.user, account.group), ("www-data", 33, 34));
        assert!(super::account("nonsense").is_none());
    }
}
