//! Patterns of group and topic names.

/// Whether a whole text matches a pattern: `*` any text, `?` one character. Not recursive: on a
/// mismatch the last `*` takes one more character.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    let mut star = None;
    loop {
        let mut rest = text.clone();
        match (pattern.next(), rest.next()) {
            (Some('*'), _) => star = Some((pattern.clone(), text.clone())),
            (Some('?'), Some(_)) => text = rest,
            (Some(p), Some(t)) if p == t => text = rest,
            (None, None) => return true,
            _ => {
                let Some((after_star, taken)) = &mut star else { return false };
                if taken.next().is_none() {
                    return false;
                }
                (pattern, text) = (after_star.clone(), taken.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, text, hit) in [
            ("shop", "shop", true),
            ("shop", "shops", false),
            ("shop*", "shop", true),
            ("*-eu", "shop-eu", true),
            ("*-eu", "shop-eu-eu", true),
            ("*-eu", "shop-eux", false),
            ("a*b*c", "aXbXbYc", true),
            ("a*b*c", "aXbXbY", false),
            ("?", "é", true),
            ("?", "", false),
            ("", "", true),
            ("*", "", true),
            ("a.c", "abc", false),
        ] {
            assert_eq!(glob(pattern, text), hit, "{pattern} {text}");
        }
    }
}
