/* A callback for C panics; the panic must not leave an extern "C" function, so Rust panics again and aborts.

Truth: {"says": ["SIGABRT", "shard 7 is not loaded", "program.rs:1\\d"],
        "never": "a Rust panic at \\S*library/core", "flags": ["-C", "opt-level=1"]}
*/
struct Shards {
    loaded: Vec<u32>,
}

#[inline(never)]
fn find_shard(shards: &Shards, number: u32) -> u32 {
    match shards.loaded.iter().find(|each| **each == number) {
        Some(found) => *found,
        None => panic!("shard {number} is not loaded"),
    }
}

#[inline(never)]
extern "C" fn on_request(shards: &Shards, number: u32) -> u32 {
    find_shard(shards, number) + 1
}

fn main() {
    let shards = Shards { loaded: vec![1, 2, 3] };
    println!("{}", on_request(&shards, 7));
}
