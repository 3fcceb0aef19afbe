//! Bars for long work: on stderr, and only where that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of so many steps; without a number it only shows that something goes on.
pub fn bar(name: &str, steps: Option<u64>) -> ProgressBar {
    let bar = steps.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    let template = if steps.is_some() { "{msg} {wide_bar} {percent} % {eta}" } else { "{msg} {spinner} {elapsed}" };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(name.to_owned());
    bar
}
