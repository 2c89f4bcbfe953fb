//! The profile that the user of a program chooses.

use std::ffi::OsStr;
use std::sync::OnceLock;

use tacklib::Profile;

/// The environment variable that chooses the profile of each [`Config`](crate::Config): `default`,
/// `video` or `off`.
pub const PROFILE_VARIABLE: &str = "TACK_PROFILE";

/// What [`PROFILE_VARIABLE`] says; the default if it says nothing that is known. It is read once, and a
/// value that is not known is warned of then.
pub fn from_environment() -> Profile {
    static PROFILE: OnceLock<Profile> = OnceLock::new();
    *PROFILE.get_or_init(|| {
        let Some(value) = std::env::var_os(PROFILE_VARIABLE) else { return Profile::Default };
        parse(&value).unwrap_or_else(|| {
            log::warn!(
                "{PROFILE_VARIABLE} is {}, which is no profile: `default` is used; there are \
                 `default`, `video` and `off`",
                value.display()
            );
            Profile::Default
        })
    })
}

fn parse(value: &OsStr) -> Option<Profile> {
    match value.to_str()? {
        "default" => Some(Profile::Default),
        "video" => Some(Profile::Video),
        "off" => Some(Profile::Off),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_profiles_have_names_and_nothing_else_is_one() {
        let known = ["default", "video", "off"].map(|name| parse(OsStr::new(name)));
        let profiles = [Profile::Default, Profile::Video, Profile::Off];
        assert_eq!(known, profiles.map(Some));
        for unknown in ["", "Off", "quick", "default ", "0"] {
            assert_eq!(parse(OsStr::new(unknown)), None, "{unknown:?}");
        }
    }
}
