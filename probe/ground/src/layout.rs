//! Text that fits: lines broken at words, and tables that leave columns out where there is no room.

use std::os::fd::AsFd;

/// As wide as text becomes, and as it is where nobody tells the width.
pub const WIDEST: usize = 80;
/// Below this nothing can be read anyway.
const NARROWEST: usize = 40;

/// How wide the terminal is, or WIDEST where there is none.
pub fn terminal_width(stream: impl AsFd) -> usize {
    rustix::termios::tcgetwinsize(stream).map_or(WIDEST, |size| match size.ws_col {
        0 => WIDEST,
        columns => usize::from(columns).clamp(NARROWEST, WIDEST),
    })
}

/// A column of a table.
pub struct Column {
    heading: &'static str,
    /// With the space before it.
    width: usize,
    /// The column with the highest number is left out first.
    spare: u8,
}

impl Column {
    pub const fn new(heading: &'static str, width: usize, spare: u8) -> Self {
        Self {
            heading,
            width,
            spare,
        }
    }
}

/// The columns of a table that fit into so much room.
pub struct Fitting<'a> {
    columns: &'a [Column],
    shown: Vec<bool>,
}

impl<'a> Fitting<'a> {
    pub fn new(columns: &'a [Column], room: usize) -> Self {
        let mut shown = vec![true; columns.len()];
        let mut order: Vec<usize> = (0..columns.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(columns[*index].spare));
        let mut used: usize = columns.iter().map(|column| column.width).sum();
        for index in order {
            if used <= room {
                break;
            }
            shown[index] = false;
            used -= columns[index].width;
        }
        Self { columns, shown }
    }

    pub fn format_headings(&self) -> String {
        self.format_row(self.columns.iter().map(|column| column.heading.to_owned()))
    }

    /// One cell for each column, those that are not shown included.
    pub fn format_row(&self, cells: impl IntoIterator<Item = String>) -> String {
        self.columns
            .iter()
            .zip(&self.shown)
            .zip(cells)
            .filter(|((_, shown), _)| **shown)
            .map(|((column, _), cell)| format!("{cell:>width$}", width = column.width))
            .collect()
    }
}

/// `text` behind `first`, broken at spaces; what follows the first line is indented as far as `first` reaches.
pub fn wrap_text(first: &str, text: &str, width: usize) -> String {
    let indent = first.chars().count();
    let mut lines = first.to_owned();
    let mut length = indent;
    for word in text.split(' ') {
        let word_length = word.chars().count();
        if length > indent && length + 1 + word_length > width {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            length = indent;
        } else if length > indent {
            lines.push(' ');
            length += 1;
        }
        lines.push_str(word);
        length += word_length;
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [
        Column::new("a", 4, 0),
        Column::new("b", 4, 2),
        Column::new("c", 4, 1),
    ];

    #[test]
    fn what_can_be_spared_is_left_out_first() {
        let headings = |room| Fitting::new(&COLUMNS, room).format_headings();
        assert_eq!(headings(12), "   a   b   c");
        assert_eq!(headings(11), "   a   c");
        assert_eq!(headings(7), "   a");
        assert_eq!(headings(0), "");
    }

    #[test]
    fn long_text_is_broken_at_words_and_hangs() {
        let text = wrap_text("warning: ", "word ".repeat(40).trim(), 60);
        assert!(text.lines().count() > 2);
        assert!(text.lines().all(|line| line.len() <= 60), "{text}");
        let mut behind = text.lines().skip(1);
        assert!(behind.all(|line| line.starts_with("         word")));
        assert_eq!(wrap_text("x ", "unbreakable", 5), "x unbreakable\n");
    }
}
