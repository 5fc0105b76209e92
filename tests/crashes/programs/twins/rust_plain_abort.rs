/* A program built with panic=abort panics once.

Truth: {"says": ["SIGABRT", "row 3 of 3", "read_row|rust_plain_abort.rs:7|program.rs:7"], "never": "a Rust panic at \\S*library/core", "flags": ["-C", "opt-level=1", "-C", "panic=abort"]}
*/
#[inline(never)]
fn read_row(rows: &[u32], row: usize) -> u32 { if row >= rows.len() { panic!("row {row} of {}", rows.len()) } rows[row] }

fn main() { println!("{}", read_row(&[1, 2, 3], 2 + std::env::args().count())); }
