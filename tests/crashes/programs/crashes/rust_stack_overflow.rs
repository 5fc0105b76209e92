/* A Rust function calls itself without end; Rust's own handler of SIGSEGV prints that and aborts.

Truth: {"says": ["SIGSEGV", "stack is used up", "visit_node", "recursion"], "flags": ["-C", "opt-level=1"]}
*/
#[inline(never)]
fn visit_node(depth: u64, path: &mut [u64; 8]) -> u64 {
    path[(depth % 8) as usize] = depth;
    let mut own = *path;
    visit_node(depth + 1, &mut own) + own[0]
}

fn main() {
    println!("{}", visit_node(0, &mut [0; 8]));
}
