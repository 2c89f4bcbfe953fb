//! Text and numbers in XML.

use std::fmt::{self, Write as _};

/// Text whose special characters are escaped, in content and in attributes.
pub(in crate::report) struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// A length or place in the drawing, to a tenth of a pixel.
pub(super) struct Px(pub f64);

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 * 10.0).round() as i64;
        let sign = if tenths < 0 { "-" } else { "" };
        let (whole, tenth) = (tenths.abs() / 10, tenths.abs() % 10);
        if tenth == 0 { write!(f, "{sign}{whole}") } else { write!(f, "{sign}{whole}.{tenth}") }
    }
}

/// About how wide a text is at a font size, in a common sans-serif font.
pub(super) fn text_width(text: &str, font_size: f64) -> f64 {
    text.chars().count() as f64 * font_size * 0.56
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_escaped() {
        assert_eq!(Escaped("a<b & \"c\">").to_string(), "a&lt;b &amp; &quot;c&quot;&gt;");
    }

    #[test]
    fn lengths_are_rounded_to_tenths() {
        let shown: Vec<_> =
            [1.0, 2.34, -0.26, -0.01].into_iter().map(|x| Px(x).to_string()).collect();
        assert_eq!(shown, ["1", "2.3", "-0.3", "0"]);
    }
}
