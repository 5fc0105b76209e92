/* A vector of Rust for which there is no memory.

Truth: {"says": ["SIGABRT", "memory could not be allocated: 4,611,686,018,427,387,904 bytes", "load_rows"], "flags": ["-O"]}
*/
#[inline(never)]
fn load_rows(count: usize) -> Vec<u8> {
    Vec::with_capacity(count)
}

fn main() {
    let count = std::env::args().count() << 62;
    println!("{}", load_rows(count).capacity());
}
