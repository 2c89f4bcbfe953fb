//! A section of docs/embedding.md as a list of commands.

use std::path::Path;

const EMBEDDING: &str = include_str!("../../../../../docs/embedding.md");

/// What a section has its reader do.
#[derive(Debug, Default)]
pub struct Guide {
    /// Commands that end, in their order.
    pub setup: Vec<String>,
    /// The command that serves.
    pub server: String,
    /// The command that asks it.
    pub client: String,
    /// What the latter prints.
    pub printed: String,
}

/// The section under this heading.
pub fn section(heading: &str) -> Guide {
    let opening = format!("\n## {heading}\n");
    let (_, rest) = EMBEDDING.split_once(&opening).expect("the section is there");
    let section = rest.split("\n## ").next().unwrap_or(rest);
    let mut guide = Guide::default();
    let mut fences = section.split("```");
    // What stands before a fence, and what is in it.
    while let (Some(_), Some(fenced)) = (fences.next(), fences.next()) {
        let (kind, text) = fenced.split_once('\n').expect("a fence has lines");
        match (kind, text.lines().next()) {
            ("sh", Some("# In one terminal:")) => text.clone_into(&mut guide.server),
            ("sh", Some("# In another:")) => text.clone_into(&mut guide.client),
            ("sh", _) => guide.setup.push(text.to_owned()),
            ("text", _) => text.clone_into(&mut guide.printed),
            _ => {}
        }
    }
    assert!(!guide.setup.is_empty() && !guide.printed.is_empty(), "{guide:?}");
    assert!(!guide.server.is_empty() && !guide.client.is_empty(), "{guide:?}");
    guide
}

/// The checkout that the commands name.
pub fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).expect("the workspace")
}
